//! The owner of a local installation: an account and a key that the first start creates.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use kitfleet_domain::accounts::{self, AccountStatus, NewAccount};
use kitfleet_domain::api_keys::{self, NewKey, Scopes, Secret};
use kitfleet_domain::audit::Actor;
use kitfleet_domain::mail_links::{self, Purpose};
use kitfleet_domain::sign_ups;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use sqlx::{Connection as _, PgConnection};

/// No mail server delivers to it.
const EMAIL: &str = "owner@localhost";

/// The owner has neither a password nor a mailbox at first.
const LINK_GOOD_FOR: Duration = Duration::from_hours(1);

pub enum Owner {
    /// The key is shown only now.
    New(Secret),
    /// The key is in [`key_file`].
    Kept,
    /// No working key in [`key_file`]. The field is the oldest account.
    Elsewhere(AccountId),
}

impl Owner {
    /// Removes the key, for output that must not show it, such as a container's log.
    pub fn without_key(self) -> Self {
        match self {
            Self::New(_) => Self::Kept,
            kept => kept,
        }
    }
}

/// File that holds the owner's key. Only its owner can read it.
pub fn key_file(data_dir: &Path) -> PathBuf {
    data_dir.join("owner-key")
}

/// File that holds the link of [`sign_in_link`] when output must not show it. Only its owner can read it.
pub fn link_file(data_dir: &Path) -> PathBuf {
    data_dir.join("sign-in-link")
}

/// Returns a link that signs the local owner in once. `None` if the oldest account is not that of a local owner.
pub async fn sign_in_link(conn: &mut PgConnection, base_url: &str) -> Result<Option<String>> {
    link(conn, base_url, Purpose::MagicLink, "magic-link").await
}

/// As [`sign_in_link`]. The link also asks for a new password.
pub async fn password_link(conn: &mut PgConnection, base_url: &str) -> Result<Option<String>> {
    link(conn, base_url, Purpose::ResetPassword, "reset-password").await
}

async fn link(conn: &mut PgConnection, base_url: &str, purpose: Purpose, page: &str) -> Result<Option<String>> {
    let Some(id) = accounts::first(conn).await? else { return Ok(None) };
    let account = accounts::find(conn, id).await?;
    if account.is_none_or(|account| account.email != EMAIL || account.status != AccountStatus::Active) {
        return Ok(None);
    }
    let token = mail_links::issue_for(conn, id, purpose, LINK_GOOD_FOR).await?;
    Ok(Some(format!("{base_url}/{page}?token={}", token.reveal())))
}

/// Creates the owner's account and key when the database has no account.
pub async fn welcome(conn: &mut PgConnection, data_dir: &Path) -> Result<Owner> {
    if let Some(account) = accounts::first(conn).await? {
        return kept(conn, data_dir, account).await;
    }
    let mut tx = conn.begin().await?;
    let owner = NewAccount {
        email: EMAIL.to_owned(),
        name: "Owner".to_owned(),
        password_hash: None,
        tier: Tier::Enterprise,
        verified: true,
        signup_network: None,
    };
    let account = sign_ups::create(&mut tx, owner).await.context("cannot create the owner's account")?;
    let scopes = Scopes::parse(&["account_owner"])?;
    let (_, key) = api_keys::mint(&mut tx, account, &Actor::System, NewKey::customer("owner", &scopes)).await?;
    // The file is written before the commit: the next start replaces a key that the database does not know, but a committed key
    // that is not in the file is lost.
    let file = key_file(data_dir);
    keep(&file, key.reveal()).with_context(|| format!("cannot save the owner's key in {}", file.display()))?;
    tx.commit().await?;
    Ok(Owner::New(key))
}

async fn kept(conn: &mut PgConnection, data_dir: &Path, oldest: AccountId) -> Result<Owner> {
    let Some(key) = read(&key_file(data_dir)) else { return Ok(Owner::Elsewhere(oldest)) };
    let works = api_keys::find_by_secret(conn, &key).await?.is_some_and(|record| !record.revoked && !record.expired);
    Ok(if works { Owner::Kept } else { Owner::Elsewhere(oldest) })
}

pub fn read(file: &Path) -> Option<Secret> {
    Secret::parse(fs::read_to_string(file).ok()?.trim())
}

pub fn keep(file: &Path, secret: &str) -> io::Result<()> {
    fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut written: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(written, "{secret}")?;
    written.sync_all()
}
