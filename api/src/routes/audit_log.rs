//! The audit log (contract: audit-log 7 to 9, 18): a page at a time, and whole.
//!
//! An export notes which rows the log has and then reads them, a few at a time, as fast as its reader takes them. Rows of
//! the log never change, so that it needs no transaction and no connection of the database while it waits: the memory and
//! the time of a slow reader are its own. Fast readers share what there is: of an account one batch is read at a time, and of all
//! accounts two, so that exports leave connections and processors to others.

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
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::heavy::heavy;
use kitfleet_domain::ids::{AccountId, ApiKeyId};
use kitfleet_domain::teams::Role;
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_domain::validation::Invalid;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;
use uuid::Uuid;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::lists::{self, Paging, Query};
use crate::http::openapi::{Database, InvalidQuery, Restricted, one_of};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;

const READ_AUDIT_LOG: Rule = Rule::scope(Scope::ReadAudit).for_team(Role::Member);

pub fn routes() -> Routes {
    Routes::new().allow(READ_AUDIT_LOG, routes!(list)).allow(READ_AUDIT_LOG, routes!(export))
}

/// What was done, by whom
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "actor_type": "customer", "actor_account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "actor_key_id": null,
    "action": "api_key.minted", "target_resource_id": "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5",
    "payload": {"name": "CI", "scopes": ["read", "write:sessions"]}, "ip_address": "203.0.113.9",
    "user_agent": "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)", "timestamp": "2026-11-20T18:05:00.123Z",
}))]
pub struct AuditEntry {
    /// Its id, without a prefix
    #[schema(value_type = String, format = Uuid)]
    id: Uuid,
    /// Whose log it is in
    #[schema(value_type = String)]
    account_id: AccountId,
    /// Who did it
    #[schema(schema_with = actor_type)]
    actor_type: String,
    /// The acting account: another than `account_id` when a member of its team acted
    #[schema(value_type = Option<String>, required = true)]
    actor_account_id: Option<AccountId>,
    /// The acting key; null for web sessions, the system and staff
    #[schema(value_type = Option<String>, required = true)]
    actor_key_id: Option<ApiKeyId>,
    /// What was done
    action: String,
    /// To what
    #[schema(required = true)]
    target_resource_id: Option<String>,
    /// The details. Clients must expect members, and whole shapes, that they do not know
    #[schema(value_type = Object)]
    payload: Value,
    /// From where; null when another account acted
    #[schema(required = true)]
    ip_address: Option<String>,
    /// With what; null when another account acted
    #[schema(required = true)]
    user_agent: Option<String>,
    /// When
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
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
    /// What gets the next page; null on the last one
    #[schema(required = true)]
    next_cursor: Option<String>,
}

/// The log of the account that the request is about, for its caller's eyes.
fn log_of(caller: &Caller) -> Log {
    Log { account: caller.account_id, reader: caller.actor.account() }
}

/// List the audit log
///
/// Newest first. It can only be added to.
#[utoipa::path(
    get, path = "/v1/account/audit-log", tag = "Audit log", operation_id = "listAuditLog",
    params(
        Paging,
        ("action" = Option<String>, Query, description = "Only entries of this one action", example = "api_key.minted"),
    ),
    responses((status = 200, description = "A page", body = AuditPage), Restricted, InvalidQuery, Database),
)]
async fn list(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<AuditPage>> {
    page(&app, &query, log_of(&caller), "audit_log").await
}

/// The page of a log that a query asks for. `list` names the list that its cursors are bound to, besides the account.
///
/// # Errors
/// When a parameter is not valid, or the database fails.
pub async fn page(app: &App, query: &Query, log: Log, list: &'static str) -> Result<Answer<AuditPage>> {
    let action = query.filters(query.parsed("action", known_action), &app.config.limits)?;
    let scope = CursorScope { account: log.account, list, filters: &[action] };
    let page = lists::page(
        app,
        query,
        scope,
        |row: &Row| row.id,
        async |conn, after, limit| log::list(conn, log, Filter { action, after }, limit).await,
    );
    let page = page.await?;
    Ok(Answer(AuditPage { data: page.data.into_iter().map(AuditEntry::from).collect(), next_cursor: page.next_cursor }))
}

fn known_action(name: &str) -> Result<&'static str, Invalid> {
    areas::find_action(name).ok_or_else(|| Invalid::field("action", "must be the name of one action"))
}

/// An export of the audit log
#[derive(ToSchema)]
#[schema(example = json!({
    "generated_at": "2026-11-20T18:06:00.123Z", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "row_count": 0,
    "truncated": false, "data": [],
}))]
#[expect(dead_code, reason = "it is written piece by piece; this describes the whole")]
struct AuditExport {
    /// When it was made
    #[schema(value_type = String, format = DateTime)]
    generated_at: Timestamp,
    /// Whose log it is
    #[schema(value_type = String)]
    account_id: AccountId,
    /// How many entries it has
    row_count: u32,
    /// Whether the log has older entries, which were left out
    truncated: bool,
    /// The entries, newest first
    data: Vec<AuditEntry>,
}

/// Export the audit log
///
/// The newest 10,000 entries, newest first, as a file. An export that breaks off is not whole. In CSV, a cell that a
/// spreadsheet would take for a formula begins with an apostrophe; `payload` is always a JSON object.
#[utoipa::path(
    get, path = "/v1/account/audit-log/export", tag = "Audit log", operation_id = "exportAuditLog",
    params(("format" = inline(Format), Query, description = "What kind of file")),
    responses(
        (status = 200, description = "The file", content((AuditExport = "application/json"), (String = "text/csv")),
         headers(("Content-Disposition" = String, description = "The file's name"))),
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

/// Rows that an export reads at once.
const BATCH: usize = 200;
/// About how many bytes a row has.
const ROW: usize = 1_024;

/// How long a batch waits for its turn. No reader keeps one, so that it comes as soon as others' batches are read; and what
/// has begun to be sent cannot be refused any more, but only broken off.
const PATIENCE: Duration = Duration::from_hours(1);

/// Reads some rows and writes them in an export's format, in a task of its own: an export is dropped when its reader hangs
/// up, and what uses the database must not be.
async fn batch(app: App, log: Log, ids: Vec<Uuid>, format: Format, first: bool) -> io::Result<Vec<u8>> {
    let shared = app.clone();
    let read = async move {
        let _turn = shared.exports.take(log.account, PATIENCE).await.map_err(io::Error::other)?;
        let rows = log::rows(&mut *shared.db.acquire().await.map_err(io::Error::other)?, log, &ids).await;
        let rows = rows.map_err(io::Error::other)?;
        heavy(rows.len() * ROW, || format.rows(rows, first))
    };
    app.handlers.spawn(read).await.map_err(io::Error::other)?.inspect_err(|error| {
        tracing::error!(%error, "audit log export ended early");
    })
}

/// What kind of file an export is.
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

    /// What stands before the rows.
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

    /// What stands behind the rows.
    fn end(self) -> Vec<u8> {
        match self {
            Self::Csv => Vec::new(),
            Self::Json => b"]}".to_vec(),
        }
    }
}

/// In the contract's order (contract: audit-log 9), and so are [`cells`].
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
    // It is an object: no formula begins with a brace.
    let payload = row.payload.to_string().into();
    [timestamp, action, actor, account, key, target, ip_address, user_agent, payload]
}

/// A cell that no spreadsheet takes for a formula, whatever a customer wrote into it: one that would be begins with an
/// apostrophe.
fn harmless(cell: String) -> Cow<'static, str> {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) { format!("'{cell}").into() } else { cell.into() }
}

/// Records as RFC 4180 has them.
fn csv(records: impl IntoIterator<Item = [Cow<'static, str>; 9]>) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    for record in records {
        writer.write_record(record.iter().map(AsRef::<str>::as_ref))?;
    }
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}
