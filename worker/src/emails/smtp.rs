use std::error::Error as _;
use std::fmt;

use kitfleet_domain::emails::Outcome;
use lettre::transport::smtp;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use url::{Host, Url};

use super::NotSent;
use super::mail::{Mail, Sender};

/// Each mail uses its own connection.
#[derive(Clone)]
pub struct Relay(AsyncSmtpTransport<Tokio1Executor>);

#[derive(Debug, thiserror::Error)]
#[error("must be a URL such as smtp://user:password@host:587, smtp://host?tls=required or smtps://host")]
pub struct RelayError;

impl Relay {
    /// `smtps` is TLS from the first byte. `smtp` uses STARTTLS according to the `tls` parameter, `required` or
    /// `opportunistic`. Without it, a password is sent to another host only over TLS, a mail without a password uses TLS if the
    /// server offers it, and loopback is plain text.
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

    /// The server is reachable and accepts the credentials. An error is text.
    pub async fn check(&self) -> Result<(), String> {
        match self.0.test_connection().await {
            Ok(true) => Ok(()),
            Ok(false) => Err("the server does not respond".to_owned()),
            Err(error) => Err(describe_error(&error)),
        }
    }

    pub(super) async fn send(&self, mail: &Mail, from: &Sender) -> Result<(), NotSent> {
        let message = mail.message(from)?;
        self.0.send(message).await.map_err(|error| NotSent::new(outcome(&error), describe_error(&error)))?;
        Ok(())
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Relay(…)")
    }
}

fn is_loopback(url: &Url) -> bool {
    // `smtp` is not a special scheme of the URL standard, so the parser does not recognise IP addresses in its host.
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
    // RFC 5321, section 4.2.3; RFC 4954, section 6; RFC 3463 for the enhanced code at the beginning of the text.
    let text = error.source().map(ToString::to_string).unwrap_or_default();
    match code {
        400..500 if text.starts_with("4.7.") => Outcome::RateLimited,
        400..500 => Outcome::Transport,
        // The mail server's demand, such as authentication, must be resolved by an operator.
        530..540 => Outcome::Unknown,
        550 | 551 | 553 if !text.starts_with("5.7.") => Outcome::InactiveRecipient,
        _ => Outcome::InvalidRequest,
    }
}

/// lettre stores it in the source of the error.
fn describe_error(error: &smtp::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_server_is_parsed_from_its_url() {
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
