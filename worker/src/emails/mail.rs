//! A message, and from whom.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use askama::Template as _;
use kitfleet_domain::emails::{Attempt, Outcome, Template};
use kitfleet_domain::ids::EmailId;
use kitfleet_domain::timestamp::Timestamp;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Body, Mailbox, MultiPart, SinglePart};
use lettre::{Address, Message};
use url::{Host, Url};

use super::NotSent;
use super::letter::{Html, Letter, Text};

/// What customers see as the sender of mails without another name.
const NAME: &str = "Kitfleet";

/// Whom mails are from.
#[derive(Debug, Clone)]
pub struct Sender(Mailbox);

/// A text that is no sender.
#[derive(Debug, thiserror::Error)]
#[error("must be a sender such as {NAME} <no-reply@example.com>")]
pub struct SenderError;

impl Sender {
    /// Nobody at the host of this URL; a host without a name has no mail, so that it becomes `localhost`.
    #[must_use]
    pub fn nobody_at(base_url: &str) -> Self {
        let url = Url::parse(base_url).ok();
        let domain = url.as_ref().and_then(|url| match url.host()? {
            Host::Domain(name) => Address::new("no-reply", name).ok(),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        });
        let address = domain.or_else(|| Address::new("no-reply", "localhost").ok());
        Self(Mailbox::new(Some(NAME.to_owned()), address.unwrap_or_else(|| unreachable!("localhost is a host"))))
    }

    pub(super) fn mailbox(&self) -> &Mailbox {
        &self.0
    }
}

impl FromStr for Sender {
    type Err = SenderError;

    fn from_str(text: &str) -> Result<Self, SenderError> {
        let mailbox: Mailbox = text.parse().map_err(|_| SenderError)?;
        let name = mailbox.name.filter(|name| !name.is_empty()).unwrap_or_else(|| NAME.to_owned());
        Ok(Self(Mailbox::new(Some(name), mailbox.email)))
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A message to one reader.
pub(super) struct Mail {
    pub(super) id: EmailId,
    pub(super) attempt: i32,
    pub(super) template: Template,
    pub(super) written_at: Timestamp,
    pub(super) to: String,
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) html: String,
    /// Where a POST ends the subscription that it is for (RFC 8058).
    pub(super) unsubscribe: Option<String>,
}

impl Mail {
    pub(super) fn new(attempt: &Attempt, to: String, letter: &Letter<'_>) -> Self {
        let render = |rendered: askama::Result<String>| rendered.unwrap_or_else(|_| unreachable!("a string takes all"));
        Self {
            id: attempt.id,
            attempt: attempt.number,
            template: attempt.template,
            written_at: attempt.started_at,
            to,
            subject: letter.subject.clone().into_owned(),
            text: render(Text { letter }.render()),
            html: render(Html { letter }.render()),
            unsubscribe: letter.unsubscribe.clone(),
        }
    }

    /// Headers beside those that every message has.
    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![("Auto-Submitted", "auto-generated".to_owned())];
        if let Some(url) = &self.unsubscribe {
            headers.push(("List-Unsubscribe", format!("<{url}>")));
            headers.push(("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned()));
        }
        headers
    }

    /// As mail servers want it.
    pub(super) fn message(&self, from: &Sender) -> Result<Message, NotSent> {
        let refused = |error: &dyn fmt::Display| NotSent::new(Outcome::InvalidRequest, error);
        let to: Address = self.to.parse().map_err(|error| refused(&error))?;
        let from = from.mailbox();
        // An attempt whose link is another is another message.
        let message_id = format!("<{}.{}@{}>", self.id, self.attempt, from.email.domain());
        let mut message = Message::builder();
        for (name, value) in self.headers() {
            let name = HeaderName::new_from_ascii_str(name);
            // All of it is ASCII, and an address must not be broken up, however long it is.
            message = message.raw_header(HeaderValue::dangerous_new_pre_encoded(name, value.clone(), value));
        }
        message
            .from(from.clone())
            .to(Mailbox::new(None, to))
            .subject(self.subject.clone())
            .date(SystemTime::from(self.written_at.0))
            .message_id(Some(message_id))
            .multipart(
                MultiPart::alternative()
                    .singlepart(as_it_stands(ContentType::TEXT_PLAIN, &self.text))
                    .singlepart(as_it_stands(ContentType::TEXT_HTML, &self.html)),
            )
            .map_err(|error| refused(&error))
    }
}

/// The octets that a line of a message may have (RFC 5322, 2.1.1).
const LINE_OCTETS: usize = 998;

/// A part that is not encoded, where it can travel so: a link is longer than the 76 characters above which lettre would have broken it
/// up. What staff have written may be longer, or not ASCII.
fn as_it_stands(kind: ContentType, content: &str) -> SinglePart {
    let lines: Vec<_> = content.lines().collect();
    if !content.is_ascii() || lines.iter().any(|line| line.len() > LINE_OCTETS) {
        let text = lines.join("\r\n");
        let body = Body::new_with_encoding(text, ContentTransferEncoding::QuotedPrintable);
        return SinglePart::builder()
            .header(kind)
            .body(body.unwrap_or_else(|_| unreachable!("quoted-printable can encode everything")));
    }
    let body = Body::dangerous_pre_encoded(lines.join("\r\n").into_bytes(), ContentTransferEncoding::SevenBit);
    SinglePart::builder().header(kind).body(body)
}
