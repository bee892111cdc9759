//! `kitfleet key rotate-sealing` (contract: command-line 15 to 17).

use anyhow::{Context as _, Result, ensure};
use kitfleet_domain::encryption_key;
use kitfleet_domain::resealing::{self, ResealedKind};
use sqlx::PgConnection;

use crate::config::Config;
use crate::output::Format;

/// Returns an error when no configured key is the deployment's, a secret is unreadable, or a row stays locked.
pub async fn rotate(config: &Config, conn: &mut PgConnection, replace_probe: bool, format: Format) -> Result<()> {
    let vault = config.auth().vault.context("mfa.encryption_key is not set: secrets cannot be sealed")?;
    let status = encryption_key::register(&mut *conn, Some(&vault)).await?;
    ensure!(
        status.is_usable() || replace_probe,
        "{}: add the key that sealed them to mfa.retired_encryption_keys or, when that key is lost, pass --replace-probe",
        status.description()
    );
    // The probe is replaced first: from then on a process with only the earlier keys is not ready. It could not read the resealed rows.
    encryption_key::replace_probe(&mut *conn, &vault).await?;
    let progress = |counts: &ResealedKind| {
        // The command continues when standard output is closed.
        let _ = format.progress(|| format!("{}: {} resealed", counts.kind, counts.resealed));
    };
    let kinds = resealing::reseal_all(conn, &vault, progress).await?;
    format.table(&kinds, &["kind", "resealed", "already", "unreadable", "locked"])?;

    let unreadable: Vec<_> = kinds.iter().filter(|counts| counts.unreadable > 0).map(unreadable).collect();
    ensure!(
        unreadable.is_empty(),
        "no configured key opens {}; add the key that sealed them to mfa.retired_encryption_keys",
        unreadable.join("; ")
    );
    let locked: u64 = kinds.iter().map(|counts| counts.locked).sum();
    ensure!(locked == 0, "{locked} secrets are locked by other transactions: run the command again");
    format.progress(|| "every secret is sealed with the current key".to_owned())
}

/// The number of unreadable secrets of a kind, with the first ids.
fn unreadable(counts: &ResealedKind) -> String {
    let named = counts.unreadable_ids.join(", ");
    let more = if usize::try_from(counts.unreadable).is_ok_and(|all| all > counts.unreadable_ids.len()) {
        ", …"
    } else {
        ""
    };
    format!("{} {} ({named}{more})", counts.unreadable, counts.kind)
}
