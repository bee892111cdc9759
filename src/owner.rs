//! The owner of a local installation: an account and a key, made by the first start.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kitfleet_domain::accounts::{self, NewAccount, Tier};
use kitfleet_domain::api_keys::{self, NewKey, Scopes, Secret};
use kitfleet_domain::audit::Actor;
use kitfleet_domain::ids::AccountId;
use kitfleet_domain::sign_ups;
use sqlx::{Connection as _, PgConnection};

/// An address to which no mail server delivers.
const EMAIL: &str = "owner@localhost";

/// Where the owner's key is.
pub enum Owner {
    /// Just made: the one time the key is shown.
    New(Secret),
    /// In [`key_file`], from an earlier start.
    Kept,
    /// Not here: the accounts are somebody else's, or the file was lost. This is the oldest account.
    Elsewhere(AccountId),
}

impl Owner {
    /// The same for a text that must not have the key, such as a container's log.
    pub fn without_key(self) -> Self {
        match self {
            Self::New(_) => Self::Kept,
            kept => kept,
        }
    }
}

/// The file that keeps the owner's key, for its reader alone.
pub fn key_file(data_dir: &Path) -> PathBuf {
    data_dir.join("owner-key")
}

/// Makes the owner's account and key when the database has no account yet.
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
    let account = sign_ups::create(&mut tx, owner).await.context("creating the owner's account")?;
    let scopes = Scopes::parse(&["account_owner"])?;
    let (_, key) = api_keys::mint(&mut tx, account, &Actor::System, NewKey::customer("owner", &scopes)).await?;
    // The file comes first: a key that no database knows is replaced by the next start, but a key that is not written
    // down is lost.
    let file = key_file(data_dir);
    keep(&file, &key).with_context(|| format!("keeping the owner's key in {}", file.display()))?;
    tx.commit().await?;
    Ok(Owner::New(key))
}

/// Whether the kept key works here.
async fn kept(conn: &mut PgConnection, data_dir: &Path, oldest: AccountId) -> Result<Owner> {
    let Some(key) = read(&key_file(data_dir)) else { return Ok(Owner::Elsewhere(oldest)) };
    let works = api_keys::find_by_secret(conn, &key).await?.is_some_and(|record| !record.revoked && !record.expired);
    Ok(if works { Owner::Kept } else { Owner::Elsewhere(oldest) })
}

/// The key that a file holds, if it holds one.
pub fn read(file: &Path) -> Option<Secret> {
    Secret::parse(fs::read_to_string(file).ok()?.trim())
}

fn keep(file: &Path, key: &Secret) -> io::Result<()> {
    fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut written: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(written, "{}", key.reveal())?;
    written.sync_all()
}
