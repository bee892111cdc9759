//! The audit log (contract: audit-log 7 to 9, 18): pages and the export.
//!
//! An export reads the IDs of the rows first, then the rows in batches as fast as the client receives them. Rows of the log
//! never change, so the export holds no transaction and no database connection while it waits for a slow client.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use axum::Json as Answer;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::areas;
use kitfleet_domain::audit::log::{self, Filter, Log, Row, Snapshot};
use kitfleet_domain::blocking::run_blocking;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::teams::Role;
use kitfleet_types::ids::{AccountId, ApiKeyId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, both};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;
use uuid::Uuid;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::lists::{self, CreatedWithin, Paging, Query};
use crate::http::openapi::{Database, InvalidQuery, Restricted, named, one_of};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;

const READ_AUDIT_LOG: Rule = Rule::scope(Scope::ReadAudit).for_team(Role::Member);

pub fn routes() -> Routes {
    Routes::new().allow(READ_AUDIT_LOG, routes!(list)).allow(READ_AUDIT_LOG, routes!(export))
}

/// An entry of the audit log
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "actor_type": "customer", "actor_account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "actor_key_id": null,
    "action": "api_key.minted", "target_resource_id": "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5",
    "payload": {"name": "CI", "scopes": ["read", "write:sessions"]}, "ip_address": "203.0.113.9",
    "user_agent": "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)", "timestamp": "2026-11-20T18:05:00.123Z",
}))]
pub struct AuditEntry {
    /// Entry ID, a UUID without a prefix
    #[schema(value_type = String, format = Uuid)]
    id: Uuid,
    /// Account that the entry belongs to
    #[schema(value_type = String)]
    account_id: AccountId,
    /// Type of the actor
    #[schema(schema_with = actor_type)]
    actor_type: String,
    /// Account of the actor; differs from `account_id` when a team member acted
    #[schema(value_type = Option<String>, required = true)]
    actor_account_id: Option<AccountId>,
    /// API key of the actor; null for web sessions, the system and staff
    #[schema(value_type = Option<String>, required = true)]
    actor_key_id: Option<ApiKeyId>,
    /// Action
    #[schema(schema_with = action)]
    action: String,
    /// Resource that the action applied to
    #[schema(required = true)]
    target_resource_id: Option<String>,
    /// Details of the action. Clients must accept unknown members and unknown structures
    #[schema(value_type = Object)]
    payload: Value,
    /// IP address of the request; null when another account acted
    #[schema(required = true)]
    ip_address: Option<String>,
    /// User agent of the request; null when another account acted
    #[schema(required = true)]
    user_agent: Option<String>,
    /// Time of the action (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
}

fn action() -> RefOr<Schema> {
    let actions: Vec<_> = areas::actions().collect();
    named("AuditAction", one_of(&actions, None))
}

fn actor_type() -> RefOr<Schema> {
    one_of(&["customer", "system", "staff"], None)
}

impl From<Row> for AuditEntry {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            account_id: row.account_id,
            actor_type: row.actor_type,
            actor_account_id: row.actor_account_id,
            actor_key_id: row.actor_key_id,
            action: row.action,
            target_resource_id: row.target_resource_id,
            payload: row.payload,
            ip_address: row.ip_address,
            user_agent: row.user_agent,
            timestamp: row.timestamp,
        }
    }
}

/// A page of the audit log, newest first
#[derive(Serialize, ToSchema)]
pub struct AuditPage {
    data: Vec<AuditEntry>,
    /// True when there is another page
    has_more: bool,
    /// Cursor of the next page; null on the last page
    #[schema(required = true)]
    next_cursor: Option<String>,
}

/// The log of the account that the request acts on, as the caller may see it.
fn log_of(caller: &Caller) -> Log {
    Log { account: caller.account_id, reader: caller.actor.account() }
}

/// List the audit log
///
/// Returns the newest entries first. Entries cannot be changed or deleted.
#[utoipa::path(
    get, path = "/v1/account/audit-log", tag = "Audit log", operation_id = "listAuditLog",
    params(
        Paging,
        ("action" = Option<String>, Query, description = "Filter by action", example = "api_key.minted"),
        ("actor_account_id" = Option<String>, Query, description = "Filter by the account that acted",
         example = "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1"),
        ("target_resource_id" = Option<String>, Query, description = "Filter by the resource that was acted on",
         example = "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5"),
        CreatedWithin,
    ),
    responses((status = 200, description = "A page of the list", body = AuditPage), Restricted, InvalidQuery, Database),
)]
async fn list(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<AuditPage>> {
    page(&app, &query, log_of(&caller), "audit_log").await
}

/// Returns the page of a log that a query asks for. `list` names the list in the cursor, besides the account.
///
/// # Errors
/// A parameter is invalid, or the database fails.
pub async fn page(app: &App, query: &Query, log: Log, list: &'static str) -> Result<Answer<AuditPage>> {
    let subjects = both(query.parsed("action", known_action), query.text("target_resource_id"));
    let created = both(query.time("created_after"), query.time("created_before"));
    let given = both(subjects, both(query.id("actor_account_id"), created));
    let ((action, target), (actor, created)) = query.filters(given, &app.config.limits)?;
    let texts = ["action", "actor_account_id", "target_resource_id", "created_after", "created_before"];
    let filters = texts.map(|name| query.text(name).ok().flatten());
    let scope = CursorScope { account: log.account, list, filters: &filters };
    let page = lists::page(
        app,
        query,
        scope,
        |row: &Row| row.id,
        async |conn, after, limit| log::list(conn, log, Filter { action, actor, target, created, after }, limit).await,
    );
    let page = page.await?;
    let has_more = page.next_cursor.is_some();
    let data = page.data.into_iter().map(AuditEntry::from).collect();
    Ok(Answer(AuditPage { data, has_more, next_cursor: page.next_cursor }))
}

fn known_action(name: &str) -> Result<&'static str, Invalid> {
    areas::find_action(name).ok_or_else(|| Invalid::field("action", "must be the name of an action"))
}

/// An export of the audit log
#[derive(ToSchema)]
#[schema(example = json!({
    "generated_at": "2026-11-20T18:06:00.123Z", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "row_count": 0,
    "truncated": false, "data": [],
}))]
#[expect(dead_code, reason = "the export is streamed; this type only describes it")]
struct AuditExport {
    /// Time the export was made (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    generated_at: Timestamp,
    /// Account that the log belongs to
    #[schema(value_type = String)]
    account_id: AccountId,
    /// Number of entries
    row_count: u32,
    /// True when older entries were left out
    truncated: bool,
    /// The entries, newest first
    data: Vec<AuditEntry>,
}

/// Export the audit log
///
/// Returns the newest 10,000 entries as a file, newest first. A truncated response is not a complete export. In CSV, an
/// apostrophe precedes a cell that a spreadsheet would evaluate as a formula; `payload` is always a JSON object.
#[utoipa::path(
    get, path = "/v1/account/audit-log/export", tag = "Audit log", operation_id = "exportAuditLog",
    params(("format" = inline(Format), Query, description = "File format")),
    responses(
        (status = 200, description = "The file", content((AuditExport = "application/json"), (String = "text/csv")),
         headers(("Content-Disposition" = String, description = "Name of the file"))),
        Restricted, InvalidQuery, Database,
    ),
)]
async fn export(caller: Caller, State(app): State<App>, query: Query) -> Result<Response> {
    let format = query.text("format")?.and_then(Format::named);
    let format = format.ok_or_else(|| Problem::invalid("format", "must be csv or json"))?;
    let log = log_of(&caller);
    let limit = app.config.limits.audit_export_rows;
    let snapshot = log::snapshot(&mut *app.db.acquire().await?, log.account, limit).await?;

    let date = snapshot.taken_at.0.format("%Y-%m-%d");
    let disposition = format!("attachment; filename=kitfleet-audit-log-{date}.{}", format.name());
    let headers = [(CONTENT_TYPE, format.content_type().to_owned()), (CONTENT_DISPOSITION, disposition)];
    let (begin, end) = (format.beginning(log.account, &snapshot), format.end());
    let batches: Vec<_> = snapshot.ids.chunks(BATCH).map(<[Uuid]>::to_vec).collect();
    let rows = stream::iter(batches).enumerate();
    let rows = rows.then(move |(nth, ids)| batch(app.clone(), log, ids, format, nth == 0));
    let whole = stream::iter([begin]).chain(rows).chain(stream::iter([Ok(end)]));
    Ok((headers, Body::from_stream(whole)).into_response())
}

/// Rows that an export reads in one batch.
const BATCH: usize = 200;
/// Approximate size of a row in bytes.
const ROW: usize = 1_024;

/// Maximum time a batch waits for its turn. A turn lasts only as long as the database read, so waits are short. The limit is
/// generous because an export that has started cannot be refused any more, only broken off.
const PATIENCE: Duration = Duration::from_hours(1);

/// Reads a batch of rows and formats it. It runs in its own task: the export is dropped when the client disconnects, and a future
/// that uses the database must not be dropped.
async fn batch(app: App, log: Log, ids: Vec<Uuid>, format: Format, first: bool) -> io::Result<Vec<u8>> {
    let shared = app.clone();
    let read = async move {
        let _turn = shared.exports.take(log.account, PATIENCE).await.map_err(io::Error::other)?;
        let rows = log::rows(&mut *shared.db.acquire().await.map_err(io::Error::other)?, log, &ids).await;
        let rows = rows.map_err(io::Error::other)?;
        run_blocking(rows.len() * ROW, || format.rows(rows, first))
    };
    app.handlers.spawn(read).await.map_err(io::Error::other)?.inspect_err(|error| {
        tracing::error!(%error, "audit log export ended early");
    })
}

/// File format of an export.
#[derive(Debug, Clone, Copy, ToSchema)]
#[schema(title = "AuditExportFormat", rename_all = "snake_case")]
enum Format {
    Csv,
    Json,
}

impl Format {
    fn named(name: &str) -> Option<Self> {
        [Self::Csv, Self::Json].into_iter().find(|format| format.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv",
            Self::Json => "application/json",
        }
    }

    /// Text before the rows.
    fn beginning(self, account: AccountId, snapshot: &Snapshot) -> io::Result<Vec<u8>> {
        match self {
            Self::Csv => csv([COLUMNS.map(Cow::from)]),
            Self::Json => {
                let Snapshot { taken_at, ids, truncated } = snapshot;
                let envelope = format!(
                    r#"{{"generated_at":"{taken_at}","account_id":"{account}","row_count":{count},"truncated":{truncated},"data":["#,
                    count = ids.len(),
                );
                Ok(envelope.into_bytes())
            }
        }
    }

    fn rows(self, rows: Vec<Row>, first: bool) -> io::Result<Vec<u8>> {
        match self {
            Self::Csv => csv(rows.into_iter().map(cells)),
            Self::Json => {
                let mut text = Vec::new();
                for (nth, row) in rows.into_iter().enumerate() {
                    if nth > 0 || !first {
                        text.push(b',');
                    }
                    serde_json::to_writer(&mut text, &AuditEntry::from(row))?;
                }
                Ok(text)
            }
        }
    }

    /// Text after the rows.
    fn end(self) -> Vec<u8> {
        match self {
            Self::Csv => Vec::new(),
            Self::Json => b"]}".to_vec(),
        }
    }
}

/// Column order of the contract (contract: audit-log 9); [`cells`] uses the same order.
const COLUMNS: [&str; 9] = [
    "timestamp",
    "action",
    "actor_type",
    "actor_account_id",
    "actor_key_id",
    "target_resource_id",
    "ip_address",
    "user_agent",
    "payload",
];

fn cells(row: Row) -> [Cow<'static, str>; 9] {
    let optional = |id: Option<String>| id.unwrap_or_default();
    let texts = [
        row.timestamp.to_string(),
        row.action,
        row.actor_type,
        optional(row.actor_account_id.map(|id| id.to_string())),
        optional(row.actor_key_id.map(|id| id.to_string())),
        optional(row.target_resource_id),
        optional(row.ip_address),
        optional(row.user_agent),
    ];
    let [timestamp, action, actor, account, key, target, ip_address, user_agent] = texts.map(harmless);
    // The payload is an object, and no formula begins with a brace.
    let payload = row.payload.to_string().into();
    [timestamp, action, actor, account, key, target, ip_address, user_agent, payload]
}

/// Escapes a cell that a spreadsheet would evaluate as a formula: an apostrophe precedes it.
fn harmless(cell: String) -> Cow<'static, str> {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) { format!("'{cell}").into() } else { cell.into() }
}

/// Writes records as in RFC 4180.
fn csv(records: impl IntoIterator<Item = [Cow<'static, str>; 9]>) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    for record in records {
        writer.write_record(record.iter().map(AsRef::<str>::as_ref))?;
    }
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}
