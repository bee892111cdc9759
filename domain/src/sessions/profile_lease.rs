//! The lease of a session on the state of a profile.
//!
//! A session with a profile takes the lease: its browser has the newest state from then on. The next session waits
//! until that state is saved, so that it does not load a state that is about to be replaced. It does not wait for a
//! dead worker, whose unsaved state is lost. If two sessions save after all, the later session wins, regardless of the
//! order in which they save.

use kitfleet_types::ids::{AccountId, ProfileId, SessionId, StoreId};
use kitfleet_types::limits::Limits;
use serde_json::json;
use sqlx::PgConnection;

use crate::events::{self, EventType};
use crate::profiles::Content;
use crate::profiles::stores::{self, Replaced};

#[derive(Debug, Clone)]
pub struct HeldProfile {
    pub session: SessionId,
    pub account: AccountId,
    pub profile: ProfileId,
    /// Sessions that have leased the profile, including this one.
    pub generation: i64,
    pub sealed_key: Vec<u8>,
    /// `None` if none was ever saved.
    pub store: Option<StoreId>,
}

/// Reason why the end of a session did not update its profile (contract: profiles 13; events 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    SerializeFailed,
    SealFailed,
    /// The state is larger than a store may be, or than the space left in the account.
    TooLarge,
    UploadFailed,
    /// The browser's state is empty, but the profile's is not.
    DegenerateDump,
    /// A later session has already saved its state, or the profile was purged.
    Superseded,
}

impl Reason {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Message for the customer. The exact error is only logged, because it names internal hosts and paths.
    fn detail(self) -> &'static str {
        match self {
            Self::SerializeFailed => "The browser did not return its state, or the state could not be read.",
            Self::SealFailed => "The profile's key cannot be opened with the deployment's keys.",
            Self::TooLarge => {
                "The state of the browser is larger than a profile may be, or than the space left in the account."
            }
            Self::UploadFailed => "The state of the browser could not be stored, or not in time.",
            Self::DegenerateDump => "The browser holds nothing, and the profile holds something.",
            Self::Superseded => "The profile was purged, or a session that opened later has already been saved.",
        }
    }
}

/// The session is in status `creating`. `None` while another session holds the lease on a worker that has not been
/// declared dead, and if the session has ended or has no profile.
pub async fn take(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<Option<HeldProfile>> {
    sqlx::query_as!(
        HeldProfile,
        r#"update sessions s set profile_in_hand = true
           from profiles p
           where s.id = $1 and s.status = 'creating' and p.id = s.profile_id and not exists (
               select from sessions o join workers w on w.id = o.worker_id
               where o.profile_id = s.profile_id and o.profile_in_hand and o.id <> s.id
                 and w.status in ('active', 'draining'))
           returning s.id as session, s.account_id as account, p.id as profile, s.profile_generation as "generation!",
                     p.sealed_key, p.store_id as store"#,
        session as _,
    )
    .fetch_optional(conn)
    .await
}

/// Leaves the profile unchanged. `false` if the session held no lease. The session must have left `creating`, or it
/// could take the lease again.
pub async fn release(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<bool> {
    let had =
        sqlx::query!("update sessions set profile_in_hand = false where id = $1 and profile_in_hand", session as _)
            .execute(conn)
            .await?;
    Ok(had.rows_affected() == 1)
}

/// Releases the lease. On failure, or if the account's profiles would exceed their total size, records
/// `session.profile_save_failed`. Returns the store that is no longer needed, the old or the new one; a snapshot may
/// still refer to it.
pub async fn replace(
    conn: &mut PgConnection,
    held: &HeldProfile,
    store: StoreId,
    size_bytes: i64,
    limits: &Limits,
) -> sqlx::Result<Option<StoreId>> {
    let content = Content { store, size_bytes };
    match stores::replace(&mut *conn, held.account, held.profile, held.generation, content, limits).await? {
        Replaced::Now { before } => {
            release(conn, held.session).await?;
            Ok(before)
        }
        // The first call succeeded, but its caller did not receive the result.
        Replaced::Before => Ok(None),
        Replaced::Superseded => {
            fail(conn, held, Reason::Superseded).await?;
            Ok(Some(store))
        }
        Replaced::NoRoom => {
            fail(conn, held, Reason::TooLarge).await?;
            Ok(Some(store))
        }
        Replaced::Removed => {
            fail(conn, held, Reason::UploadFailed).await?;
            Ok(None)
        }
    }
}

/// Releases the lease. A repeated call records nothing.
pub async fn fail(conn: &mut PgConnection, held: &HeldProfile, reason: Reason) -> sqlx::Result<()> {
    if release(&mut *conn, held.session).await? {
        publish_failure(conn, (held.account, held.session, held.profile), reason).await?;
    }
    Ok(())
}

/// Releases leases of ended sessions on dead workers: of up to `limit` sessions, or of `only` the given one. For each session
/// that had been destroyed normally, it records that the profile was not saved.
pub async fn release_dead_leases(conn: &mut PgConnection, only: Option<SessionId>, limit: i64) -> sqlx::Result<()> {
    let left = sqlx::query!(
        r#"select s.id, s.account_id, s.profile_id as "profile_id!: ProfileId", s.status = 'destroyed' as "ended_well!"
           from sessions s join workers w on w.id = s.worker_id
           where s.profile_in_hand and s.profile_id is not null and not s.live
             and w.status in ('lost', 'stopped') and ($2::uuid is null or s.id = $2)
           order by s.account_id, s.id limit $1 for update of s skip locked"#,
        limit,
        only as _,
    )
    .fetch_all(&mut *conn)
    .await?;
    for session in left {
        if release(&mut *conn, session.id).await? && session.ended_well {
            publish_failure(&mut *conn, (session.account_id, session.id, session.profile_id), Reason::UploadFailed)
                .await?;
        }
    }
    Ok(())
}

async fn publish_failure(
    conn: &mut PgConnection,
    (account, session, profile): (AccountId, SessionId, ProfileId),
    reason: Reason,
) -> sqlx::Result<()> {
    let data = json!({
        "session_id": session,
        "profile_id": profile,
        "reason": reason.name(),
        "detail": reason.detail(),
    });
    events::record(conn, account, EventType::SessionProfileSaveFailed, data).await?;
    Ok(())
}
