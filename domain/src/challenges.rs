//! Challenges (contract: challenges): checks that pages use to find out whether the visitor is a person.
//!
//! The service neither solves nor evades challenges. A detected challenge pauses its session
//! ([`crate::sessions::pauses`]).

use std::time::Duration;

use kitfleet_types::ids::{AccountId, ChallengeId, SessionId};
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::PgConnection;

use crate::area::{Area, Bound, Purge};
use crate::events::{self, EventType};
use crate::metrics::Counter;

pub(crate) const AREA: Area = Area {
    purges: &[Purge::new("sessions", "challenges", |conn, terms, limit| Box::pin(purge(conn, terms.sessions, limit)))],
    metrics: &[&CHALLENGES],
    bounds: &[("challenges", Bound::Term("`retention.ended_sessions` (90 days) after its session ended"))],
    ..Area::named("challenges")
};

const CHALLENGES: Counter<2> =
    Counter::new("service_challenge_total", "Challenges shown by pages, by type and outcome.", ["type", "outcome"])
        .starting_with(|| {
            let outcomes = [None, Some(ChallengeOutcome::Resolved), Some(ChallengeOutcome::Disappeared)].map(named);
            ChallengeType::ALL.iter().flat_map(|kind| outcomes.map(|outcome| [kind.name(), outcome])).collect()
        });

/// The system that presents a challenge (contract: challenges 1).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    sqlx::Type,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::VariantArray,
    strum::VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum ChallengeType {
    /// Cloudflare's widget, embedded in a page.
    CloudflareTurnstile,
    /// Cloudflare's page that is served before the requested one.
    CloudflareInterstitial,
    /// Google's checkbox or image selection.
    RecaptchaV2,
    /// Google's score, which asks for no interaction.
    RecaptchaV3,
    /// `hCaptcha`'s checkbox or image selection.
    Hcaptcha,
    ArkoseFuncaptcha,
    /// `GeeTest`'s slider.
    Geetest,
    /// `DataDome`'s block page.
    Datadome,
    /// HUMAN's press-and-hold button.
    Perimeterx,
    /// Akamai's waiting page.
    Akamai,
    Imperva,
    Kasada,
    AwsWaf,
    /// A challenge of an unknown system, such as the site's own.
    Generic,
}

impl ChallengeType {
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub kind: ChallengeType,
    pub confidence: f64,
    /// Contains only fixed phrases and host names, no text of the page.
    pub detail: String,
}

/// The challenge that a session is paused for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChallengeState {
    pub challenge_id: ChallengeId,
    #[serde(rename = "type")]
    pub kind: ChallengeType,
    pub detected_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum ChallengeOutcome {
    Resolved,
    Disappeared,
}

#[derive(Debug, Clone)]
pub struct Challenge {
    pub id: ChallengeId,
    pub session_id: SessionId,
    pub kind: ChallengeType,
    pub confidence: f64,
    pub detail: String,
    pub detected_at: Timestamp,
    /// `None` while the challenge is open, and when its session ended first.
    pub outcome: Option<ChallengeOutcome>,
    pub ended_at: Option<Timestamp>,
}

/// Records `session.challenge_detected`. Runs in the transaction that pauses the session.
pub async fn record(
    conn: &mut PgConnection,
    account: AccountId,
    session: SessionId,
    id: ChallengeId,
    found: &Finding,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into challenges (id, session_id, type, confidence, detail) values ($1, $2, $3, $4, $5)",
        id as _,
        session as _,
        found.kind.name(),
        found.confidence,
        found.detail,
    )
    .execute(&mut *conn)
    .await?;
    let challenge = json!({"type": found.kind, "confidence": found.confidence, "detail": found.detail});
    let data = json!({"session_id": session, "challenge_id": id, "challenge": challenge});
    events::record(conn, account, EventType::SessionChallengeDetected, data).await?;
    Ok(())
}

pub async fn find(conn: &mut PgConnection, session: SessionId, id: ChallengeId) -> sqlx::Result<Option<Challenge>> {
    sqlx::query_as!(
        Challenge,
        r#"select id, session_id, type as "kind: ChallengeType", confidence, detail, detected_at,
                  outcome as "outcome: ChallengeOutcome", ended_at
           from challenges where id = $1 and session_id = $2"#,
        id as _,
        session as _,
    )
    .fetch_optional(conn)
    .await
}

/// `None` if the challenge had already ended.
pub async fn end(conn: &mut PgConnection, id: ChallengeId, how: ChallengeOutcome) -> sqlx::Result<Option<Timestamp>> {
    sqlx::query_scalar!(
        r#"update challenges set outcome = $2, ended_at = now() where id = $1 and outcome is null
           returning ended_at as "ended_at!: Timestamp""#,
        id as _,
        how as _,
    )
    .fetch_optional(conn)
    .await
}

/// A detection (`None`) or an outcome. Call it after the transaction has committed.
pub fn count(kind: ChallengeType, outcome: Option<ChallengeOutcome>) {
    CHALLENGES.with([kind.name(), named(outcome)]).increment(1);
}

fn named(outcome: Option<ChallengeOutcome>) -> &'static str {
    outcome.map_or("detected", Into::into)
}

/// Deletes up to `limit` challenges of sessions that ended longer ago than `age`. Returns the number of deleted rows.
async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "with old as materialized (select id from sessions_past_term($1, $2) as past (id))
         delete from challenges where id = any(array(
             select c.id from old join challenges c on c.session_id = old.id limit $2 for update of c skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
