//! Figures of the service over time, and the size of its tables.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use chrono::{DateTime, TimeDelta};
use kitfleet_domain::area::Bound;
use kitfleet_domain::samples::{self, KEPT, Series};
use kitfleet_domain::storage;
use kitfleet_domain::workers;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, both};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::types::Json;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::auth::staff::Staff;
use crate::http::error::Result;
use crate::http::lists::{List, ListItem, Query};
use crate::http::openapi::{Database, InvalidQuery, Unauthorized, tier};
use crate::http::routing::Routes;
use crate::http::state::App;

/// Maximum number of names in a request.
const NAMES_MAX: usize = 50;
const NAME_CHARS: usize = 200;
/// Samples are taken at this interval.
const STEP_MIN: u32 = 60;
const STEP_MAX: u32 = 86_400;
/// Maximum number of intervals in an answer.
const POINTS_MAX: i64 = 1_500;
const TOP_DEFAULT: u32 = 10;
const TOP_MAX: u32 = 100;

pub fn routes() -> Routes {
    Routes::new().for_staff(routes!(list)).for_staff(routes!(tables)).for_staff(routes!(stored))
}

/// Figure over time
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "name": "service_sessions_live{status=\"ready\"}", "is_counter": false,
    "points": [{"at": "2026-11-20T18:05:00.000Z", "value": 12.0}],
}))]
struct SampleSeries {
    /// Name of the metric with its labels
    name: String,
    /// True if the figure only grows, except when a process ends
    is_counter: bool,
    /// Intervals with samples, oldest first
    #[schema(value_type = Vec<SamplePoint>)]
    points: Json<Box<RawValue>>,
}

/// Value of a figure
#[derive(ToSchema)]
#[allow(dead_code, reason = "the database writes the points")]
#[schema(example = json!({"at": "2026-11-20T18:05:00.000Z", "value": 12.0}))]
struct SamplePoint {
    /// Start of the interval
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Greatest value of the interval
    value: f64,
}

type SampleSeriesList = List<SampleSeries>;

impl ListItem for SampleSeries {
    const LIST: &'static str = "SampleSeriesList";
    const MEANING: &'static str = "Figures over time, by name";
}

/// Parameters of a request for samples.
struct SampleQuery {
    names: Option<Vec<String>>,
    since: Timestamp,
    step: Duration,
}

impl SampleQuery {
    fn parse(query: &Query, Timestamp(now): Timestamp) -> Result<Self, Invalid> {
        let since = query.parsed("since", |text| {
            let read = DateTime::parse_from_rfc3339(text).ok().map(|since| since.to_utc());
            read.ok_or_else(|| Invalid::field("since", "must be a time such as 2026-11-20T18:05:00Z"))
        });
        let ((names, since), step) = both(both(names(query), since), step(query))?;
        let oldest = now - TimeDelta::from_std(KEPT).unwrap_or_default();
        let since = since.unwrap_or(now - TimeDelta::hours(1)).max(oldest);
        if (now - since).num_seconds() / i64::from(step) > POINTS_MAX {
            let message = format!("is too short for this time: the answer would have more than {POINTS_MAX} intervals");
            return Err(Invalid::field("step", message));
        }
        Ok(Self { names, since: Timestamp(since), step: Duration::from_secs(step.into()) })
    }
}

fn names(query: &Query) -> Result<Option<Vec<String>>, Invalid> {
    query.parsed("names", |text| {
        let names: Vec<_> = text.split(',').map(|name| name.trim().to_owned()).collect();
        if names.len() > NAMES_MAX || names.iter().any(|name| name.is_empty() || name.chars().count() > NAME_CHARS) {
            let message = format!("must be 1 to {NAMES_MAX} names, separated by commas");
            return Err(Invalid::field("names", message));
        }
        Ok(names)
    })
}

fn step(query: &Query) -> Result<u32, Invalid> {
    let step = query.number("step", STEP_MIN, STEP_MAX)?;
    if step < STEP_MIN {
        return Err(Invalid::field("step", format!("must be {STEP_MIN} to {STEP_MAX}")));
    }
    Ok(step)
}

/// List samples of the service
///
/// A sample is taken once a minute and kept for 14 days. A name without labels selects all figures of the metric, and an unknown name
/// selects none.
#[utoipa::path(
    get, path = "/v1/admin/samples", tag = "Staff", operation_id = "listSamples",
    params(
        ("names" = Option<String>, Query, description = "Names of metrics, separated by commas; all by default"),
        ("since" = Option<String>, Query, format = DateTime, description = "Time of the first sample, an hour ago by default"),
        (
            "step" = Option<u32>, Query, minimum = 60, maximum = 86_400,
            description = "Seconds of an interval, 60 by default"
        ),
    ),
    responses((status = 200, description = "The figures", body = SampleSeriesList), Unauthorized, InvalidQuery, Database),
)]
async fn list(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<SampleSeriesList>> {
    let mut conn = app.db.acquire().await?;
    let SampleQuery { names, since, step } = SampleQuery::parse(&query, workers::now(&mut conn).await?)?;
    let series = samples::read(&mut conn, names.as_deref(), since, step).await?;
    Ok(Answer(series.into_iter().map(SampleSeries::from).collect()))
}

impl From<Series> for SampleSeries {
    fn from(Series { name, points }: Series) -> Self {
        Self { is_counter: samples::is_counter(&name), name, points }
    }
}

/// Size of a table
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "table": "sessions", "bytes": 8_192_000, "rows": 12_000, "bound": "`retention.ended_sessions` (90 days) after it ended",
    "bound_kind": "term",
}))]
struct StorageTable {
    /// Name of the table
    table: String,
    /// Bytes with its indexes
    bytes: i64,
    /// The database's estimate of the number of rows
    rows: i64,
    /// Limit that keeps the table from growing indefinitely; null for tables of libraries
    #[schema(required = true)]
    bound: Option<&'static str>,
    /// `account` for a limit of each account, `term` for a term of each row, `operator` for rows that customers do not create
    #[schema(required = true)]
    bound_kind: Option<&'static str>,
}

type StorageTableList = List<StorageTable>;

impl ListItem for StorageTable {
    const LIST: &'static str = "StorageTableList";
    const MEANING: &'static str = "Tables, the largest first";
}

impl From<storage::TableSize> for StorageTable {
    fn from(size: storage::TableSize) -> Self {
        let (bound_kind, bound) = match size.bound {
            Some(Bound::Account(text)) => (Some("account"), Some(text)),
            Some(Bound::Term(text)) => (Some("term"), Some(text)),
            Some(Bound::Operator(text)) => (Some("operator"), Some(text)),
            None => (None, None),
        };
        Self { table: size.table, bytes: size.bytes, rows: size.rows, bound, bound_kind }
    }
}

/// List tables with their sizes
#[utoipa::path(
    get, path = "/v1/admin/storage", tag = "Staff", operation_id = "listTables",
    responses((status = 200, description = "The tables", body = StorageTableList), Unauthorized, Database),
)]
async fn tables(_: Staff, State(app): State<App>) -> Result<Answer<StorageTableList>> {
    let sizes = storage::tables(&mut *app.db.acquire().await?).await?;
    Ok(Answer(sizes.into_iter().map(StorageTable::from).collect()))
}

/// Stored data of an account
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "email": "ada@example.com", "tier": "api_scale", "profiles": 120,
    "profile_bytes": 734_003_200_i64, "profile_bytes_limit": 17_179_869_184_i64, "recordings": 40,
    "recording_bytes": 125_829_120, "recording_bytes_limit": 2_147_483_648_i64,
}))]
struct AccountStorage {
    /// ID of the account
    #[schema(value_type = String)]
    account_id: AccountId,
    /// E-mail address of the account
    email: String,
    /// Tier of the account
    #[schema(schema_with = tier)]
    tier: Tier,
    /// Profiles with stored data
    profiles: i64,
    /// Bytes of profiles and their snapshots
    profile_bytes: i64,
    /// Maximum of `profile_bytes`
    profile_bytes_limit: u64,
    /// Recordings that are stored
    recordings: i64,
    /// Bytes of recordings
    recording_bytes: i64,
    /// Maximum of `recording_bytes`
    recording_bytes_limit: u64,
}

type AccountStorageList = List<AccountStorage>;

impl ListItem for AccountStorage {
    const LIST: &'static str = "AccountStorageList";
    const MEANING: &'static str = "The accounts that store the most";
}

/// List accounts by their stored data
#[utoipa::path(
    get, path = "/v1/admin/storage/accounts", tag = "Staff", operation_id = "listAccountStorage",
    params(("top" = Option<u32>, Query, minimum = 1, maximum = 100, description = "Maximum number of accounts, 10 by default")),
    responses((status = 200, description = "The accounts", body = AccountStorageList), Unauthorized, InvalidQuery, Database),
)]
async fn stored(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<AccountStorageList>> {
    let top = query.number("top", TOP_DEFAULT, TOP_MAX)?;
    let found = storage::by_account(&mut *app.db.acquire().await?, i64::from(top)).await?;
    let accounts = found.into_iter().map(|row| AccountStorage {
        account_id: row.id,
        email: row.email,
        tier: row.tier,
        profiles: row.profiles,
        profile_bytes: row.profile_bytes,
        profile_bytes_limit: app.config.limits.profile_bytes_per_account,
        recordings: row.recordings,
        recording_bytes: row.recording_bytes,
        recording_bytes_limit: app.config.recordings.account_bytes,
    });
    Ok(Answer(accounts.collect()))
}
