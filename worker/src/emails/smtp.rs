//! A mail server that relays for us.

use std::error::Error as _;
use std::fmt;

use kitfleet_domain::emails::Outcome;
use lettre::transport::smtp;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use url::{Host, Url};

use super::NotSent;
use super::mail::{Mail, Sender};

/// A mail server, and how to talk to it. Each mail has a connection of its own.
#[derive(Clone)]
pub struct Relay(AsyncSmtpTransport<Tokio1Executor>);

/// A URL that names no mail server.
#[derive(Debug, thiserror::Error)]
#[error("must be a URL such as smtp://user:password@host:587, smtp://host?tls=required or smtps://host")]
pub struct RelayError;

impl Relay {
    /// `smtps` is TLS from the first byte. `smtp` is TLS as the URL's `tls` says, `required` or `opportunistic`; without
    /// it a password goes to another machine over TLS only, a mail wherever that is to be had, and loopback is plain.
    ///
    /// # Errors
    /// When the URL names no mail server.
    pub fn parse(url: &str) -> Result<Self, RelayError> {
        let mut url = Url::parse(url).map_err(|_| RelayError)?;
        let plain = url.scheme() == "smtp" && !url.query_pairs().any(|(name, _)| name == "tls");
        if plain && !is_loopback(&url) {
            let tls = if url.password().is_some() { "required" } else { "opportunistic" };
            url.query_pairs_mut().append_pair("tls", tls);
        }
        let relay = AsyncSmtpTransport::<Tokio1Executor>::from_url(url.as_str()).map_err(|_| RelayError)?;
        Ok(Self(relay.build()))
    }

    /// Whether it can be reached and takes our credentials.
    ///
    /// # Errors
    /// With the reason, when not.
    pub async fn check(&self) -> Result<(), String> {
        match self.0.test_connection().await {
            Ok(true) => Ok(()),
            Ok(false) => Err("it does not answer".to_owned()),
            Err(error) => Err(told(&error)),
        }
    }

    pub(super) async fn send(&self, mail: &Mail, from: &Sender) -> Result<(), NotSent> {
        let message = mail.message(from)?;
        self.0.send(message).await.map_err(|error| NotSent::new(outcome(&error), told(&error)))?;
        Ok(())
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Relay(…)")
    }
}

fn is_loopback(url: &Url) -> bool {
    // `smtp` is no scheme of the web, whose hosts alone are parsed as addresses.
    match url.host_str().and_then(|host| Host::parse(host).ok()) {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

fn outcome(error: &smtp::Error) -> Outcome {
    let Some(code) = error.status().map(u16::from) else {
        let ours = error.is_client();
        return if ours { Outcome::InvalidRequest } else { Outcome::Transport };
    };
    // RFC 5321, section 4.2.3; RFC 4954, section 6; RFC 3463 for the second code, with which the text begins.
    let text = error.source().map(ToString::to_string).unwrap_or_default();
    match code {
        400..500 if text.starts_with("4.7.") => Outcome::RateLimited,
        400..500 => Outcome::Transport,
        // What the server wants of us is for its operator or ours to mend.
        530..540 => Outcome::Unknown,
        550 | 551 | 553 if !text.starts_with("5.7.") => Outcome::InactiveRecipient,
        _ => Outcome::InvalidRequest,
    }
}

/// lettre keeps what the server said in the error's source.
fn told(error: &smtp::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_server_is_known_by_its_url() {
        for good in [
            "smtp://localhost",
            "smtp://127.0.0.1:2525",
            "smtp://u:p%40ss@mail.example:587",
            "smtps://u:p@mail.example",
        ] {
            assert!(Relay::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "smtp://", "smtp://h?tls=perhaps", "http://h", "mail.example"] {
            assert!(Relay::parse(bad).is_err(), "{bad}");
        }
    }
}
