//! Pauses: a session whose page shows a challenge accepts no automatic operation until the challenge ends (contract:
//! challenges 5 to 9).
//!
//! A paused session keeps its status. The claim reads the challenge in the session's row.

use kitfleet_types::ids::{AccountId, ChallengeId, SessionId, WorkerId};
use serde_json::json;
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};

use super::SessionStatus;
use crate::challenges::{self, Challenge, ChallengeOutcome, ChallengeState, Finding};

/// A running operation continues. `None` if the session has ended or is already paused. `conn` is in a transaction.
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

pub async fn current(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<Option<ChallengeState>> {
    let found = sqlx::query_scalar!(
        r#"select challenge as "challenge!: Json<ChallengeState>" from sessions where id = $1 and live and challenge is not null"#,
        session as _,
    );
    Ok(found.fetch_optional(conn).await?.map(|Json(challenge)| challenge))
}

/// `false` if the challenge has already ended. `conn` is in a transaction.
pub async fn disappeared(conn: &mut PgConnection, session: SessionId, id: ChallengeId) -> sqlx::Result<bool> {
    let Some(challenge) = challenges::find(&mut *conn, session, id).await? else { return Ok(false) };
    Ok(end(conn, challenge, ChallengeOutcome::Disappeared).await?.is_some())
}

#[derive(Debug)]
pub enum ResolveOutcome {
    Ended(Challenge),
    SessionEnded(SessionStatus),
    NoSession,
    NoChallenge,
}

/// Ends a challenge at the account owner's request, and resumes the session. `conn` is not in a transaction.
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

/// Locks the session's row first; all transactions use this order to avoid deadlocks.
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
