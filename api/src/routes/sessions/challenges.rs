//! Challenges that pause sessions (contract: challenges).

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::challenges::{self, ChallengeOutcome, ChallengeState, ChallengeType};
use kitfleet_domain::sessions::pauses::{self, ResolveOutcome};
use kitfleet_types::ids::{ChallengeId, SessionId};
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::WRITE_SESSIONS;
use super::problems::not_ready;
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::IgnoredBody;
use crate::http::kinds;
use crate::http::openapi::{Database, NoChallenge, Restricted, named, one_of, or_null};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::webhooks::events::challenge_type;

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_SESSIONS, routes!(resolve))
}

/// Challenge that pauses a session
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "challenge_id": "chl_019aa1de-6c00-7d3e-8f15-1b2c3d4e5f60", "type": "cloudflare_turnstile",
    "detected_at": "2026-11-20T18:05:04.512Z",
}))]
pub struct SessionChallenge {
    /// Challenge ID
    #[schema(value_type = String)]
    challenge_id: ChallengeId,
    /// Challenge provider and type
    #[schema(schema_with = challenge_type)]
    r#type: ChallengeType,
    /// Time the challenge was detected
    #[schema(value_type = String, format = DateTime)]
    detected_at: Timestamp,
}

impl From<ChallengeState> for SessionChallenge {
    fn from(ChallengeState { challenge_id, kind, detected_at }: ChallengeState) -> Self {
        Self { challenge_id, r#type: kind, detected_at }
    }
}

/// Challenge and its outcome
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "challenge_id": "chl_019aa1de-6c00-7d3e-8f15-1b2c3d4e5f60", "session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e",
    "type": "cloudflare_turnstile", "confidence": 0.93, "detail": "The page has a frame of challenges.cloudflare.com.",
    "detected_at": "2026-11-20T18:05:04.512Z", "outcome": "resolved", "ended_at": "2026-11-20T18:06:31.020Z",
}))]
struct ResolvedChallenge {
    /// Challenge ID
    #[schema(value_type = String)]
    challenge_id: ChallengeId,
    /// Session in which the challenge appeared
    #[schema(value_type = String)]
    session_id: SessionId,
    /// Challenge provider and type
    #[schema(schema_with = challenge_type)]
    r#type: ChallengeType,
    /// Confidence of the detection, from 0 to 1
    #[schema(minimum = 0, maximum = 1)]
    confidence: f64,
    /// Evidence for the detection, as text
    detail: String,
    /// Time the challenge was detected
    #[schema(value_type = String, format = DateTime)]
    detected_at: Timestamp,
    /// Reason the challenge ended: the account resolved it, or it disappeared from the page
    #[schema(schema_with = outcome, required = true)]
    outcome: Option<ChallengeOutcome>,
    /// Time the challenge ended
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    ended_at: Option<Timestamp>,
}

impl From<challenges::Challenge> for ResolvedChallenge {
    fn from(challenge: challenges::Challenge) -> Self {
        Self {
            challenge_id: challenge.id,
            session_id: challenge.session_id,
            r#type: challenge.kind,
            confidence: challenge.confidence,
            detail: challenge.detail,
            detected_at: challenge.detected_at,
            outcome: challenge.outcome,
            ended_at: challenge.ended_at,
        }
    }
}

fn outcome() -> RefOr<Schema> {
    or_null(named("ChallengeOutcome", one_of(&["resolved", "disappeared"], None)))
}

/// Resolve a challenge
///
/// Resumes a session that a challenge pauses, even if the page still shows the challenge. The challenge is not reported again
/// until the session shows another page. A challenge that has already ended is not changed.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/challenges/{challenge_id}/resolve", tag = "Sessions",
    operation_id = "resolveSessionChallenge",
    params(IdPath<SessionId>, IdPath<ChallengeId>),
    responses(
        (status = 200, description = "The ended challenge", body = ResolvedChallenge), Restricted, NoChallenge, Database,
    ),
)]
async fn resolve(
    caller: Caller,
    State(app): State<App>,
    session: IdPath<SessionId>,
    challenge: IdPath<ChallengeId>,
    _body: IgnoredBody,
) -> Result<Answer<ResolvedChallenge>> {
    let (session, challenge) = (session.id()?, challenge.id()?);
    let mut conn = app.db.acquire().await?;
    match pauses::resolve(&mut conn, caller.account_id, session, challenge).await? {
        ResolveOutcome::Ended(challenge) => Ok(Answer(challenge.into())),
        ResolveOutcome::SessionEnded(status) => Err(not_ready(status)),
        ResolveOutcome::NoSession => Err(not_found::<SessionId>()),
        ResolveOutcome::NoChallenge => Err(not_found::<ChallengeId>()),
    }
}

/// Contract: challenges 6. Problem for a request that a paused session does not accept.
pub fn paused(challenge: ChallengeState) -> Problem {
    let detail = format!(
        "the session is paused by a challenge ({}); it resumes when the challenge disappears or is resolved",
        challenge.kind.name(),
    );
    Problem::new(&kinds::CONFLICT, detail).with("challenge", SessionChallenge::from(challenge))
}
