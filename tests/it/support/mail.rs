//! Mails as their recipients receive them: from the outbox of the `file` transport, or from a mail server on loopback.

use std::fs;
use std::time::Duration;

use kitfleet_domain::emails::Template;
use mail_parser::{Message, MessageParser};

use super::{App, eventually};

/// The job runs at once, but other tests can slow the machine.
const ARRIVES_WITHIN: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub struct Mail {
    pub raw: String,
    pub from: String,
    pub to: String,
    pub subject: String,
    pub text: String,
    pub html: String,
    pub token: String,
}

impl Mail {
    pub fn parse(raw: &[u8]) -> Self {
        let message = MessageParser::default().parse(raw).expect("a mail");
        let text = message.body_text(0).expect("a text").into_owned();
        let token = text.lines().find_map(|line| Some(line.split_once("?token=")?.1.trim().to_owned()));
        Self {
            raw: String::from_utf8(raw.to_vec()).expect("ASCII"),
            from: address(message.from()),
            to: address(message.to()),
            subject: message.subject().expect("a subject").to_owned(),
            html: message.body_html(0).expect("an HTML part").into_owned(),
            token: token.unwrap_or_default(),
            text,
        }
    }

    /// Not decoded.
    pub fn header(&self, name: &str) -> String {
        let message: Message<'_> = MessageParser::default().parse(self.raw.as_bytes()).expect("a mail");
        message.header_raw(name).unwrap_or_else(|| panic!("no {name} in {}", self.raw)).trim().to_owned()
    }

    pub fn link(&self) -> &str {
        self.text.lines().find(|line| line.contains("?token=")).expect("a link")
    }
}

fn address(addresses: Option<&mail_parser::Address<'_>>) -> String {
    let one = addresses.and_then(mail_parser::Address::first).expect("an address");
    one.address().expect("an address").to_owned()
}

impl App {
    /// The newest mail of this template to this address. Waits until there is one.
    pub async fn mail_to(&self, address: &str, template: Template) -> Mail {
        self.mail_number(1, address, template).await
    }

    /// The newest one, after waiting for `count` of them.
    pub async fn mail_number(&self, count: usize, address: &str, template: Template) -> Mail {
        let what = format!("{count} mails {template:?} to {address}");
        eventually(ARRIVES_WITHIN, &what, async || {
            let mut mails = self.mails_to(address, template);
            if mails.len() < count { None } else { mails.pop() }
        })
        .await
    }

    /// Arrived mails, oldest first.
    pub fn mails_to(&self, address: &str, template: Template) -> Vec<Mail> {
        let infix = format!("-{}-", template.name());
        // Each worker has its own outbox.
        let folders = fs::read_dir(self.data_dir.path()).into_iter().flatten().flatten();
        let outboxes = folders.map(|folder| folder.path().join("outbox"));
        let entries = outboxes.flat_map(|outbox| fs::read_dir(outbox).into_iter().flatten().flatten());
        let paths = entries.map(|entry| entry.path());
        let mut paths: Vec<_> = paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "eml"))
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(&infix)))
            .collect();
        paths.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
        let mails = paths.iter().map(|path| Mail::parse(&fs::read(path).expect("a whole file")));
        mails.filter(|mail| mail.to == address).collect()
    }
}
