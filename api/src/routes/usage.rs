//! Usage of an account (contract: usage): in the current month, and by day.

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::archetypes;
use kitfleet_domain::teams::Role;
use kitfleet_domain::usage::{self, BreakdownPart, Dimension};
use kitfleet_types::ids::ApiKeyId;
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, both};
use serde::Serialize;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;
use uuid::Uuid;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::lists::Query;
use crate::http::openapi::{Database, InvalidQuery, Restricted, named, one_of, query, tier};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;

const READ_USAGE: Rule = Rule::scope(Scope::ReadUsage).for_team(Role::Member).open_to_free_devices();

pub fn routes() -> Routes {
    Routes::new()
        .allow(READ_USAGE, routes!(summary))
        .allow(READ_USAGE, routes!(series))
        .allow(READ_USAGE, routes!(breakdown))
}

/// Usage of an account in the current month
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "period_start": "2026-11-01T00:00:00.000Z", "period_end": "2026-12-01T00:00:00.000Z", "tier": "api_builder",
    "totals": {
        "session_minute": 412, "navigate": 96, "interact": 803, "wait": 120, "state_capture": 44,
        "screenshot_capture": 31,
    },
    "quotas": {
        "session_minute": null, "navigate": null, "interact": null, "wait": null, "state_capture": null,
        "screenshot_capture": null,
    },
}))]
struct UsageSummary {
    /// Start of the UTC month
    #[schema(value_type = String, format = DateTime)]
    period_start: Timestamp,
    /// Start of the next UTC month
    #[schema(value_type = String, format = DateTime)]
    period_end: Timestamp,
    /// The account's tier
    #[schema(schema_with = tier)]
    tier: Tier,
    totals: MonthTotals,
    quotas: Quotas,
}

/// Usage by record type
#[derive(Serialize, ToSchema)]
pub struct MonthTotals {
    /// Started minutes of sessions
    session_minute: i64,
    /// Pages loaded
    navigate: i64,
    /// Taps, texts, scrolls and keys
    interact: i64,
    /// Waits
    wait: i64,
    /// State reads
    state_capture: i64,
    /// Screenshots
    screenshot_capture: i64,
}

impl From<usage::Totals> for MonthTotals {
    fn from(totals: usage::Totals) -> Self {
        Self {
            session_minute: totals.session_minute,
            navigate: totals.navigate,
            interact: totals.interact,
            wait: totals.wait,
            state_capture: totals.state_capture,
            screenshot_capture: totals.screenshot_capture,
        }
    }
}

/// Quotas by record type; nothing is metered, so each is null
#[derive(Default, Serialize, ToSchema)]
struct Quotas {
    #[schema(required = true)]
    session_minute: Option<i64>,
    #[schema(required = true)]
    navigate: Option<i64>,
    #[schema(required = true)]
    interact: Option<i64>,
    #[schema(required = true)]
    wait: Option<i64>,
    #[schema(required = true)]
    state_capture: Option<i64>,
    #[schema(required = true)]
    screenshot_capture: Option<i64>,
}

/// Get the usage of the current month
///
/// Returns the usage of the UTC calendar month so far. Live sessions are counted up to now.
#[utoipa::path(
    get, path = "/v1/usage", tag = "Usage", operation_id = "getUsage",
    responses((status = 200, description = "The month so far", body = UsageSummary), Restricted, Database),
)]
async fn summary(caller: Caller, State(app): State<App>) -> Result<Answer<UsageSummary>> {
    let summary = usage::summary(&mut *app.db.acquire().await?, caller.account_id).await?;
    let summary = summary.ok_or_else(|| Problem::internal(&"the account that was admitted does not exist"))?;
    Ok(Answer(UsageSummary {
        period_start: summary.period_start,
        period_end: summary.period_end,
        tier: summary.tier,
        totals: summary.totals.into(),
        quotas: Quotas::default(),
    }))
}

/// Usage of an account by day
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "from_date": "2026-11-19", "to_date": "2026-11-20",
    "buckets": [{"date": "2026-11-19", "totals": {}}, {"date": "2026-11-20", "totals": {"session_minute": 7, "navigate": 3}}],
}))]
struct UsageSeries {
    /// First day of the period
    #[schema(format = Date)]
    from_date: String,
    /// Last day: yesterday
    #[schema(format = Date)]
    to_date: String,
    /// Days, oldest first
    buckets: Vec<UsageBucket>,
}

/// Usage on a UTC day
#[derive(Serialize, ToSchema)]
struct UsageBucket {
    /// Date of the day
    #[schema(format = Date)]
    date: String,
    totals: DayTotals,
}

/// Usage on a day by record type; absent types have no usage
#[derive(Serialize, ToSchema)]
struct DayTotals {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    session_minute: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    navigate: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    interact: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    wait: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    state_capture: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    screenshot_capture: Option<i64>,
}

impl From<usage::Totals> for DayTotals {
    fn from(totals: usage::Totals) -> Self {
        let any = |count: i64| (count > 0).then_some(count);
        Self {
            session_minute: any(totals.session_minute),
            navigate: any(totals.navigate),
            interact: any(totals.interact),
            wait: any(totals.wait),
            state_capture: any(totals.state_capture),
            screenshot_capture: any(totals.screenshot_capture),
        }
    }
}

/// Get usage by day
///
/// Returns the usage of the last complete UTC days, up to yesterday.
#[utoipa::path(
    get, path = "/v1/usage/series", tag = "Usage", operation_id = "getUsageSeries",
    params(("days" = Option<u32>, Query, minimum = 1, maximum = 90, description = "Number of days, 30 by default")),
    responses((status = 200, description = "One bucket for each day", body = UsageSeries), Restricted, InvalidQuery, Database),
)]
async fn series(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<UsageSeries>> {
    let limits = &app.config.limits;
    let days = query.number("days", limits.usage_days_default, limits.usage_days_max)?;
    let series = usage::series(&mut *app.db.acquire().await?, caller.account_id, days).await?;
    let buckets: Vec<_> =
        series.into_iter().map(|day| UsageBucket { date: day.date.to_string(), totals: day.totals.into() }).collect();
    let date = |bucket: Option<&UsageBucket>| bucket.map(|bucket| bucket.date.clone()).unwrap_or_default();
    let (from_date, to_date) = (date(buckets.first()), date(buckets.last()));
    Ok(Answer(UsageSeries { from_date, to_date, buckets }))
}

/// Usage of an account by a property of its sessions
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "from_date": "2026-11-19", "to_date": "2026-11-20", "by": "api_key",
    "data": [{
        "key": "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "label": "CI", "totals": {"session_minute": 7, "navigate": 3},
    }],
}))]
struct UsageBreakdown {
    /// First day
    #[schema(format = Date)]
    from_date: String,
    /// Last day: yesterday
    #[schema(format = Date)]
    to_date: String,
    /// Property of the sessions
    #[schema(schema_with = dimension)]
    by: Dimension,
    /// At most 1,000 entries, those with the most session minutes first
    data: Vec<UsagePart>,
}

/// Usage of the sessions with one value of the property
#[derive(Serialize, ToSchema)]
struct UsagePart {
    /// API key ID, archetype ID or label; null for sessions without one
    #[schema(required = true)]
    key: Option<String>,
    /// Name for people; null if there is none
    #[schema(required = true)]
    label: Option<String>,
    totals: DayTotals,
}

fn dimension() -> RefOr<Schema> {
    named("UsageDimension", one_of(&Dimension::ALL.map(Dimension::name), None))
}

impl UsagePart {
    fn of(by: Dimension, part: BreakdownPart) -> Self {
        let BreakdownPart { key, key_name, totals } = part;
        let (key, label) = match by {
            Dimension::ApiKey => {
                (key.and_then(|key| Some(ApiKeyId::from(Uuid::parse_str(&key).ok()?).to_string())), key_name)
            }
            Dimension::Archetype => {
                let known = key.as_deref().and_then(archetypes::find);
                (key.clone(), known.map(|archetype| archetype.display_label.clone()))
            }
            Dimension::Label => (key.clone(), key),
        };
        Self { key, label, totals: totals.into() }
    }
}

/// Property filter, for the contract.
struct By;

impl IntoParams for By {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![query("by", "Property of the sessions", dimension()).required(Required::True).build()]
    }
}

/// Get usage by API key, archetype or label
///
/// Returns the usage of the last complete UTC days, up to yesterday, by a property of the sessions.
#[utoipa::path(
    get, path = "/v1/usage/breakdown", tag = "Usage", operation_id = "getUsageBreakdown",
    params(By, ("days" = Option<u32>, Query, minimum = 1, maximum = 90, description = "Number of days, 30 by default")),
    responses((status = 200, description = "The breakdown", body = UsageBreakdown), Restricted, InvalidQuery, Database),
)]
async fn breakdown(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<UsageBreakdown>> {
    let limits = &app.config.limits;
    let by = query.text("by").and_then(|name| {
        let known = Dimension::ALL.into_iter().find(|by| Some(by.name()) == name);
        known.ok_or_else(|| Invalid::field("by", "must be api_key, archetype or label"))
    });
    let (by, days) = both(by, query.number("days", limits.usage_days_default, limits.usage_days_max))?;
    let found = usage::breakdown(&mut *app.db.acquire().await?, caller.account_id, by, days).await?;
    Ok(Answer(UsageBreakdown {
        from_date: found.from.to_string(),
        to_date: found.to.to_string(),
        by,
        data: found.parts.into_iter().map(|part| UsagePart::of(by, part)).collect(),
    }))
}
