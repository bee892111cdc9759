//! Challenges (contract: challenges): what pages ask to find out whether whoever visits them is a person.
//!
//! They are detected, and neither solved nor evaded. One that is found pauses its session ([`crate::sessions::pauses`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::PgConnection;

use crate::area::{Area, Bound, Purge};
use crate::events::{self, EventType};
use crate::ids::{AccountId, ChallengeId, SessionId};
use crate::timestamp::Timestamp;

pub(crate) const AREA: Area = Area {
    purges: &[Purge::new("sessions", "challenges", |conn, terms, limit| Box::pin(purge(conn, terms.sessions, limit)))],
    events: &["session.challenge_detected"],
    bounds: &[("challenges", Bound::Term("`retention.ended_sessions` (90 days) after its session ended"))],
    ..Area::named("challenges")
};

/// Which system asks (contract: challenges 1).
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
    /// A widget of Cloudflare's on somebody's page.
    CloudflareTurnstile,
    /// A page of Cloudflare's before somebody's.
    CloudflareInterstitial,
    /// Google's checkbox, or its pictures.
    RecaptchaV2,
    /// Google's score, which asks nobody anything.
    RecaptchaV3,
    /// `hCaptcha`'s checkbox, or its pictures.
    Hcaptcha,
    /// Arkose Labs' puzzles.
    ArkoseFuncaptcha,
    /// `GeeTest`'s sliders.
    Geetest,
    /// `DataDome`'s page.
    Datadome,
    /// HUMAN's button that is to be held.
    Perimeterx,
    /// Akamai's page that is to be waited for.
    Akamai,
    /// Imperva's page.
    Imperva,
    /// Kasada's page.
    Kasada,
    /// AWS WAF's page.
    AwsWaf,
    /// Somebody's own.
    Generic,
}

impl ChallengeType {
    /// Every one.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;
    /// As the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// As the contract and the database spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What was seen on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Whose it is.
    pub kind: ChallengeType,
    /// How sure that is, 0 to 1.
    pub confidence: f64,
    /// How it was told, in our own words and the names of hosts.
    pub detail: String,
}

/// The challenge by which a session is paused.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChallengeState {
    /// Which.
    pub challenge_id: ChallengeId,
    /// Whose it is.
    #[serde(rename = "type")]
    pub kind: ChallengeType,
    /// When it was.
    pub detected_at: Timestamp,
}

/// How a challenge ended, after which its session went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum ChallengeOutcome {
    /// Its owner said so.
    Resolved,
    /// The page does not show it any more.
    Disappeared,
}

/// A challenge, and what became of it.
#[derive(Debug, Clone)]
pub struct Challenge {
    /// Which.
    pub id: ChallengeId,
    /// Whose browser it came to.
    pub session_id: SessionId,
    /// Whose it is.
    pub kind: ChallengeType,
    /// How sure that is, 0 to 1.
    pub confidence: f64,
    /// How it was told.
    pub detail: String,
    /// When it was.
    pub detected_at: Timestamp,
    /// How it ended; `None` as long as it stands, or when its session ended before it.
    pub outcome: Option<ChallengeOutcome>,
    /// When.
    pub ended_at: Option<Timestamp>,
}

/// Writes a challenge and tells of it (`session.challenge_detected`), in the transaction that pauses its session.
///
/// # Errors
/// When the database fails.
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

/// The session's challenge of this id.
///
/// # Errors
/// When the database fails.
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

/// Ends a challenge that has not ended. Answers when.
///
/// # Errors
/// When the database fails.
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

/// Counts what has become of a challenge, when that is committed. `None` of one that was detected.
pub fn count(kind: ChallengeType, outcome: Option<ChallengeOutcome>) {
    metrics::counter!("service_challenge_total", "type" => kind.name(), "outcome" => named(outcome)).increment(1);
}

/// All that is counted: types, and what can become of them.
pub fn counted() -> impl Iterator<Item = (&'static str, &'static str)> {
    let outcomes = [None, Some(ChallengeOutcome::Resolved), Some(ChallengeOutcome::Disappeared)].map(named);
    ChallengeType::ALL.iter().flat_map(move |kind| outcomes.map(|outcome| (kind.name(), outcome)))
}

fn named(outcome: Option<ChallengeOutcome>) -> &'static str {
    outcome.map_or("detected", Into::into)
}

/// Deletes challenges of sessions that ended longer ago than `age`, up to `limit`. Answers how many.
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
