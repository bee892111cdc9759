//! Pauses: a session whose page shows a challenge takes no automatic operation until that has ended (contract: challenges 5 to 9).
//!
//! A session that is paused keeps its status. What pauses it stands in its row, where the claim finds it.

use serde_json::json;
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};

use super::SessionStatus;
use crate::challenges::{self, Challenge, ChallengeOutcome, ChallengeState, Finding};
use crate::ids::{AccountId, ChallengeId, SessionId, WorkerId};

/// Pauses a session of `worker` that lives, and tells of the challenge that was found. `None` when it has ended, or is paused
/// already. What runs meanwhile goes on. `conn` is in a transaction.
///
/// # Errors
/// When the database fails.
pub async fn pause(
    conn: &mut PgConnection,
    worker: WorkerId,
    session: SessionId,
    found: &Finding,
) -> sqlx::Result<Option<ChallengeId>> {
    let id = ChallengeId::generate();
    let paused = sqlx::query_scalar!(
        "update sessions set challenge = $3 || jsonb_build_object('detected_at', now()), updated_at = now()
         where id = $1 and worker_id = $2 and live and challenge is null
         returning account_id",
        session as _,
        worker as _,
        json!({"challenge_id": id, "type": found.kind}),
    );
    let Some(account) = paused.fetch_optional(&mut *conn).await? else { return Ok(None) };
    challenges::record(conn, account, session, id, found).await?;
    Ok(Some(id))
}

/// What pauses a session, if it lives and anything does.
///
/// # Errors
/// When the database fails.
pub async fn standing(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<Option<ChallengeState>> {
    let found = sqlx::query_scalar!(
        r#"select challenge as "challenge!: Json<ChallengeState>" from sessions where id = $1 and live and challenge is not null"#,
        session as _,
    );
    Ok(found.fetch_optional(conn).await?.map(|Json(standing)| standing))
}

/// Lets a session go on whose page shows its challenge no more. `false` when the challenge has ended already. `conn` is in a
/// transaction.
///
/// # Errors
/// When the database fails.
pub async fn disappeared(conn: &mut PgConnection, session: SessionId, id: ChallengeId) -> sqlx::Result<bool> {
    let Some(challenge) = challenges::find(&mut *conn, session, id).await? else { return Ok(false) };
    Ok(end(conn, challenge, ChallengeOutcome::Disappeared).await?.is_some())
}

/// What became of the wish to resolve a challenge.
#[derive(Debug)]
pub enum ResolveOutcome {
    /// It has ended, now or before.
    Ended(Challenge),
    /// Its session ended before it.
    SessionEnded(SessionStatus),
    /// The account has no such session.
    NoSession,
    /// The session had no such challenge.
    NoChallenge,
}

/// Ends a challenge at its owner's word, and lets the session go on. `conn` is in no transaction.
///
/// # Errors
/// When the database fails.
pub async fn resolve(
    conn: &mut PgConnection,
    account: AccountId,
    session: SessionId,
    id: ChallengeId,
) -> sqlx::Result<ResolveOutcome> {
    let mut tx = conn.begin().await?;
    let status = sqlx::query_scalar!(
        r#"select status as "status: SessionStatus" from sessions where id = $1 and account_id = $2 for no key update"#,
        session as _,
        account as _,
    );
    let Some(status) = status.fetch_optional(&mut *tx).await? else { return Ok(ResolveOutcome::NoSession) };
    let Some(challenge) = challenges::find(&mut tx, session, id).await? else { return Ok(ResolveOutcome::NoChallenge) };
    if challenge.outcome.is_some() {
        return Ok(ResolveOutcome::Ended(challenge));
    }
    if matches!(status, SessionStatus::Destroyed | SessionStatus::Errored) {
        return Ok(ResolveOutcome::SessionEnded(status));
    }
    let Some(ended) = end(&mut tx, challenge, ChallengeOutcome::Resolved).await? else {
        return Ok(ResolveOutcome::NoChallenge);
    };
    tx.commit().await?;
    challenges::count(ended.kind, ended.outcome);
    Ok(ResolveOutcome::Ended(ended))
}

/// Ends a challenge, and the pause that it is. The session's row is locked first, as everybody does.
async fn end(conn: &mut PgConnection, challenge: Challenge, how: ChallengeOutcome) -> sqlx::Result<Option<Challenge>> {
    sqlx::query!(
        "update sessions set challenge = null, updated_at = now() where id = $1 and challenge->>'challenge_id' = $2",
        challenge.session_id as _,
        challenge.id.to_string(),
    )
    .execute(&mut *conn)
    .await?;
    let Some(at) = challenges::end(conn, challenge.id, how).await? else { return Ok(None) };
    Ok(Some(Challenge { outcome: Some(how), ended_at: Some(at), ..challenge }))
}
