//! `email.*`

use kitfleet_worker::emails::{MailConfig, MailTransport, PostmarkAccount, Relay, Sender};
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::values::{BaseUrl, MailSender, Secret, SmtpUrl, secret, word};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Email {
    #[serde(deserialize_with = "word")]
    pub transport: Transport,
    /// By default `no-reply` at the host of `server.base_url`.
    pub from: Option<MailSender>,
    pub smtp_url: Option<SmtpUrl>,
    #[serde(deserialize_with = "secret")]
    pub postmark_token: Option<Secret>,
    pub postmark_url: BaseUrl,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// One file per mail, under `data_dir`.
    #[default]
    File,
    Smtp,
    Postmark,
}

impl Default for Email {
    fn default() -> Self {
        Self {
            transport: Transport::File,
            from: None,
            smtp_url: None,
            postmark_token: None,
            postmark_url: BaseUrl::known("https://api.postmarkapp.com"),
        }
    }
}

impl Email {
    pub fn mail_at(&self, base_url: &str) -> Result<MailConfig, ConfigError> {
        let lacks = |key, transport| ConfigError(format!("`{key}` is required when `email.transport` is {transport}"));
        let transport = match self.transport {
            Transport::File => MailTransport::File,
            Transport::Smtp => {
                let url = self.smtp_url.as_ref().ok_or_else(|| lacks("email.smtp_url", "smtp"))?;
                let relay = Relay::parse(url.reveal());
                MailTransport::Smtp(relay.map_err(|error| ConfigError(format!("`email.smtp_url`: {error}")))?)
            }
            Transport::Postmark => {
                let token = self.postmark_token.as_ref().ok_or_else(|| lacks("email.postmark_token", "postmark"))?;
                let account = PostmarkAccount::new(self.postmark_url.as_str(), token.reveal());
                MailTransport::Postmark(
                    account.map_err(|error| ConfigError(format!("`email.postmark_token`: {error}")))?,
                )
            }
        };
        Ok(MailConfig { from: self.sender_at(base_url).into(), transport })
    }

    pub fn sender_at(&self, base_url: &str) -> MailSender {
        self.from.clone().unwrap_or_else(|| Sender::noreply_at(base_url).into())
    }
}
