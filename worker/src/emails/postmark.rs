//! Postmark API (<https://postmarkapp.com/developer/api/email-api>).

use std::fmt;
use std::time::Duration;

use kitfleet_domain::emails::Outcome;
use reqwest::{StatusCode, redirect};
use serde::Deserialize;
use serde_json::json;

use super::NotSent;
use super::mail::{Mail, Sender};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The token identifies it.
#[derive(Clone)]
pub struct Account {
    url: String,
    token: String,
    http: reqwest::Client,
}

/// The error code is more specific than the HTTP status.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Answer {
    error_code: i64,
    message: String,
}

impl Account {
    /// `url` is the base URL of the API, without a trailing slash.
    pub fn new(url: &str, token: &str) -> reqwest::Result<Self> {
        let http =
            reqwest::Client::builder().no_proxy().redirect(redirect::Policy::none()).connect_timeout(CONNECT_LIMIT);
        Ok(Self { url: url.to_owned(), token: token.to_owned(), http: http.build()? })
    }

    pub(super) async fn send(&self, mail: &Mail, from: &Sender) -> Result<(), NotSent> {
        let headers = mail.headers().into_iter().map(|(name, value)| json!({"Name": name, "Value": value}));
        let body = json!({
            "From": from.to_string(),
            "To": mail.to,
            "Subject": mail.subject,
            "TextBody": mail.text,
            "HtmlBody": mail.html,
            "MessageStream": "outbound",
            "Headers": headers.collect::<Vec<_>>(),
            "TrackOpens": false,
            "TrackLinks": "None",
        });
        let request = self.http.post(format!("{}/email", self.url)).header("x-postmark-server-token", &self.token);
        let lost = |error: reqwest::Error| NotSent::new(Outcome::Transport, error.without_url());
        let response = request.json(&body).send().await.map_err(lost)?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let answer: Answer = serde_json::from_slice(&response.bytes().await.map_err(lost)?).unwrap_or_default();
        let detail = format!("{status}, code {}: {}", answer.error_code, answer.message);
        Err(NotSent::new(outcome(status, answer.error_code), detail))
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({})", self.url)
    }
}

fn outcome(status: StatusCode, code: i64) -> Outcome {
    match (status.as_u16(), code) {
        (429, _) => Outcome::RateLimited,
        (500.., _) => Outcome::Transport,
        (_, 406) => Outcome::InactiveRecipient,
        (_, 412 | 413) => Outcome::PendingApproval,
        (422, _) | (_, 300) => Outcome::InvalidRequest,
        _ => Outcome::Unknown,
    }
}
