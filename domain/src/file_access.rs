//! Right of an API process, which checks the caller, to transfer files of a session. It proves the right to the worker
//! with a ticket.
//!
//! A ticket is sealed with a key that the processes of a deployment share, is bound to its session, describes one
//! transfer, and is never given to a client. It has no row, because it is used at once and never withdrawn.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitfleet_types::ids::{DownloadId, SessionId, UploadId};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::database;
use crate::vault::Vault;

/// Purpose for which the vault derives the sealing key, and the name of the shared key.
const PURPOSE: &str = "file_access";

/// No ticket of a live view has a dot.
const PREFIX: &str = "files.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FileAccess {
    Downloads,
    Content {
        download: DownloadId,
    },
    /// The file stays with the session.
    Attach,
    Upload {
        upload: UploadId,
    },
}

#[derive(Debug, Clone)]
pub struct AccessTickets(Vault);

impl AccessTickets {
    /// The deployment's processes share a key unless one is `configured`.
    pub async fn fetch(conn: &mut PgConnection, configured: Option<&Vault>) -> sqlx::Result<Self> {
        database::vault(conn, PURPOSE, configured).await.map(Self)
    }

    /// It may be invalid.
    #[must_use]
    pub fn is_ticket(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Never fails: the description of a transfer is JSON.
    pub fn issue(&self, session: SessionId, access: FileAccess) -> serde_json::Result<String> {
        let sealed = self.0.seal(PURPOSE, &session.to_string(), &serde_json::to_vec(&access)?);
        Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(sealed)))
    }

    /// `None` if the ticket is not valid.
    #[must_use]
    pub fn open(&self, session: SessionId, ticket: &str) -> Option<FileAccess> {
        let sealed = URL_SAFE_NO_PAD.decode(ticket.strip_prefix(PREFIX)?).ok()?;
        let access = self.0.open(PURPOSE, &session.to_string(), &sealed).ok()?;
        serde_json::from_slice(&access).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticket_opens_for_its_session_and_key_only() {
        let tickets = AccessTickets(Vault::new([1; 32], &[]));
        let (session, access) = (SessionId::generate(), FileAccess::Content { download: DownloadId::generate() });
        let ticket = tickets.issue(session, access).expect("a ticket");
        assert!(AccessTickets::is_ticket(&ticket) && ticket.len() < 512, "{ticket}");
        assert_eq!(tickets.open(session, &ticket), Some(access));
        assert_eq!(tickets.open(SessionId::generate(), &ticket), None);
        assert_eq!(AccessTickets(Vault::new([2; 32], &[])).open(session, &ticket), None);
        assert_eq!(tickets.open(session, &ticket[..ticket.len() - 1]), None);
        assert_eq!(tickets.open(session, "files."), None);
        assert!(!AccessTickets::is_ticket("pX2l"));
    }
}
