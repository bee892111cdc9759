use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use askama::Template as _;
use kitfleet_domain::emails::{Attempt, Outcome, Template};
use kitfleet_types::ids::EmailId;
use kitfleet_types::timestamp::Timestamp;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Body, Mailbox, MultiPart, SinglePart};
use lettre::{Address, Message};
use url::{Host, Url};

use super::NotSent;
use super::letter::{Html, Letter, Text};

/// Used when no other name is configured.
const NAME: &str = "Kitfleet";

#[derive(Debug, Clone)]
pub struct Sender(Mailbox);

#[derive(Debug, thiserror::Error)]
#[error("the sender must have the form {NAME} <no-reply@example.com>")]
pub struct SenderError;

impl Sender {
    /// At the host of this URL. A URL with an IP address becomes `localhost`, because mail needs a host name.
    #[must_use]
    pub fn noreply_at(base_url: &str) -> Self {
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

pub(super) struct Mail {
    pub(super) id: EmailId,
    pub(super) attempt: i32,
    pub(super) template: Template,
    pub(super) written_at: Timestamp,
    pub(super) to: String,
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) html: String,
    /// Ends the subscription on a POST request (RFC 8058).
    pub(super) unsubscribe: Option<String>,
}

impl Mail {
    pub(super) fn new(attempt: &Attempt, to: String, letter: &Letter<'_>) -> Self {
        let render = |rendered: askama::Result<String>| {
            rendered.unwrap_or_else(|_| unreachable!("writing to a string cannot fail"))
        };
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

    /// Headers in addition to the common ones.
    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![("Auto-Submitted", "auto-generated".to_owned())];
        if let Some(url) = &self.unsubscribe {
            headers.push(("List-Unsubscribe", format!("<{url}>")));
            headers.push(("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned()));
        }
        headers
    }

    pub(super) fn message(&self, from: &Sender) -> Result<Message, NotSent> {
        let refused = |error: &dyn fmt::Display| NotSent::new(Outcome::InvalidRequest, error);
        let to: Address = self.to.parse().map_err(|error| refused(&error))?;
        let from = from.mailbox();
        // Each attempt has its own link, so each attempt has its own message ID.
        let message_id = format!("<{}.{}@{}>", self.id, self.attempt, from.email.domain());
        let mut message = Message::builder();
        for (name, value) in self.headers() {
            let name = HeaderName::new_from_ascii_str(name);
            // The value is ASCII and has no line breaks; folding must not split an address, however long.
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
                    .singlepart(unencoded_part(ContentType::TEXT_PLAIN, &self.text))
                    .singlepart(unencoded_part(ContentType::TEXT_HTML, &self.html)),
            )
            .map_err(|error| refused(&error))
    }
}

/// Octets of a message line (RFC 5322, 2.1.1).
const LINE_OCTETS: usize = 998;

/// Unencoded if possible, because lettre would otherwise break links longer than 76 characters. Staff texts that are not ASCII
/// or have longer lines are encoded.
fn unencoded_part(kind: ContentType, content: &str) -> SinglePart {
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
