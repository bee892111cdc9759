//! In whose hands a profile's state is.
//!
//! A session that opens with a profile takes it in hand: its browser is given what the profile holds, and from then on
//! knows better. The one that follows waits until that was written back, so that nobody starts from a state that is about
//! to be replaced; but it waits for no worker that is gone, and what such a worker had in hand is lost. Should two of them
//! write after all, the session that came later wins, whichever is faster.

use serde_json::json;
use sqlx::PgConnection;

use crate::events::{self, EventType};
use crate::ids::{AccountId, ProfileId, SessionId, StoreId};
use crate::limits::Limits;
use crate::profiles::Content;
use crate::profiles::stores::{self, Replaced};

/// A profile in a session's hands.
#[derive(Debug, Clone)]
pub struct HeldProfile {
    /// The session.
    pub session: SessionId,
    /// Whose it is.
    pub account: AccountId,
    /// The profile.
    pub profile: ProfileId,
    /// How many sessions have had it, this one included.
    pub generation: i64,
    /// What its stores are sealed with, sealed.
    pub sealed_key: Vec<u8>,
    /// What it holds, if anything was ever kept.
    pub store: Option<StoreId>,
}

/// Why a session's end did not replace what its profile holds (contract: profiles 13; events 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// The browser did not give it away, or its files could not be read.
    SerializeFailed,
    /// The profile's key cannot be opened.
    SealFailed,
    /// It is larger than a store may be, or than what there is room for in the account.
    TooLarge,
    /// It could not be put where stores are kept.
    UploadFailed,
    /// There was nothing in it, and there is something in the profile.
    DegenerateDump,
    /// A session that came later was faster, or the profile was purged.
    Superseded,
}

impl Reason {
    /// How the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The same in words. What exactly went wrong is for the operator, in the log: it names places of ours.
    fn detail(self) -> &'static str {
        match self {
            Self::SerializeFailed => "The browser did not give away what it holds, or it could not be read.",
            Self::SealFailed => "The profile's key cannot be opened with the deployment's keys.",
            Self::TooLarge => {
                "What the browser holds is larger than a profile may be, or than there is room for in the account."
            }
            Self::UploadFailed => "What the browser holds could not be stored, or not in time.",
            Self::DegenerateDump => "The browser holds nothing, and the profile holds something.",
            Self::Superseded => "The profile was purged, or a session that opened later has been saved already.",
        }
    }
}

/// Takes the profile of a session that is being created in hand. `None` as long as another session has it on a worker that was
/// not found dead, and for a session that has ended or has no profile.
///
/// # Errors
/// When the database fails.
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

/// Lets go of what a session had in hand: its profile stays as it is. `false` when it had nothing. The session must not be
/// `creating` any more, or it could take it once again.
///
/// # Errors
/// When the database fails.
pub async fn let_go(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<bool> {
    let had =
        sqlx::query!("update sessions set profile_in_hand = false where id = $1 and profile_in_hand", session as _)
            .execute(conn)
            .await?;
    Ok(had.rows_affected() == 1)
}

/// Makes a new store what a profile holds and lets go of the profile. When that cannot be, or when the account's profiles hold as much
/// as they may, `session.profile_save_failed` says why. Answers which of the two stores nobody needs any more, unless a snapshot does.
///
/// # Errors
/// When the database fails.
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
            let_go(conn, held.session).await?;
            Ok(before)
        }
        // Who asks for it again has not heard that it is done.
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

/// Lets go of the profile, and tells that the session's end did not replace what it holds: once, though whoever did not
/// hear that it is done asks again.
///
/// # Errors
/// When the database fails.
pub async fn fail(conn: &mut PgConnection, held: &HeldProfile, reason: Reason) -> sqlx::Result<()> {
    if let_go(&mut *conn, held.session).await? {
        tell(conn, (held.account, held.session, held.profile), reason).await?;
    }
    Ok(())
}

/// Lets go of what sessions of dead workers had in hand, of up to `limit` of them or of `only` this one, and tells of those that ended
/// well: nobody saves what they left.
///
/// # Errors
/// When the database fails.
pub async fn forsake(conn: &mut PgConnection, only: Option<SessionId>, limit: i64) -> sqlx::Result<()> {
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
        if let_go(&mut *conn, session.id).await? && session.ended_well {
            tell(&mut *conn, (session.account_id, session.id, session.profile_id), Reason::UploadFailed).await?;
        }
    }
    Ok(())
}

async fn tell(
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
