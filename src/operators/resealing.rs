//! `kitfleet key rotate-sealing` (contract: command-line 15 to 17).

use anyhow::{Context as _, Result, ensure};
use kitfleet_domain::encryption_key;
use kitfleet_domain::resealing::{self, ResealedKind};
use sqlx::PgConnection;

use crate::config::Config;
use crate::output::Format;

/// Seals every secret with the present key, and reports the counts of each kind.
///
/// # Errors
/// When no key is configured, the keys are not the deployment's, a secret is unreadable, or a row stays locked.
pub async fn rotate(config: &Config, conn: &mut PgConnection, replace_probe: bool, format: Format) -> Result<()> {
    let vault = config.auth().vault.context("mfa.encryption_key is not set, so that there is no key to seal with")?;
    let status = encryption_key::register(&mut *conn, Some(&vault)).await?;
    ensure!(
        status.is_usable() || replace_probe,
        "{}: add the key that sealed them to mfa.retired_encryption_keys or, when it is lost, pass --replace-probe",
        status.description()
    );
    // The probe comes first: a process that has the earlier keys only is not ready from then on, and it cannot read what follows.
    encryption_key::replace_probe(&mut *conn, &vault).await?;
    let progress = |counts: &ResealedKind| {
        // The work goes on without a reader of its progress.
        let _ = format.progress(|| format!("{}: {} resealed", counts.kind, counts.resealed));
    };
    let kinds = resealing::reseal_all(conn, &vault, progress).await?;
    format.table(&kinds, &["kind", "resealed", "already", "unreadable", "locked"])?;

    let unreadable: Vec<_> = kinds.iter().filter(|counts| counts.unreadable > 0).map(unreadable).collect();
    ensure!(
        unreadable.is_empty(),
        "none of the configured keys opens {}; add the key that sealed them to mfa.retired_encryption_keys",
        unreadable.join("; ")
    );
    let locked: u64 = kinds.iter().map(|counts| counts.locked).sum();
    ensure!(locked == 0, "other transactions have locked {locked} secrets: run the command again");
    format.progress(|| "nothing is left sealed with an earlier key".to_owned())
}

/// The unreadable secrets of a kind, of which the first are named.
fn unreadable(counts: &ResealedKind) -> String {
    let named = counts.unreadable_ids.join(", ");
    let more = if usize::try_from(counts.unreadable).is_ok_and(|all| all > counts.unreadable_ids.len()) {
        ", …"
    } else {
        ""
    };
    format!("{} {} ({named}{more})", counts.unreadable, counts.kind)
}
