//! Customers' accounts: staff can read and change them.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::accounts::{self, AccountStatus, Filter, LimitChange, LimitChanges};
use kitfleet_domain::audit::log::Log;
use kitfleet_domain::email_addresses::EmailAddress;
use kitfleet_jobs::staff::{self, Refund};
use kitfleet_types::ids::AccountId;
use kitfleet_types::limits::{MAX_OWN_PROFILES, MAX_OWN_SESSIONS};
use kitfleet_types::tiers::{self, Tier};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules, both};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::{ReasonBody, StaffAction, cursors, filter};
use crate::http::auth::staff::Staff;
use crate::http::error::Result;
use crate::http::json::{Unchecked, given};
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{Body, Database, InvalidQuery, NoCustomer, OutOfPlace, Unauthorized, named, one_of, tier};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::audit_log::{self, AuditPage};

/// Maximum number of characters of a note.
const NOTE_CHARS: usize = 5_000;
/// Maximum number of characters of a refund's reference.
const REFERENCE_CHARS: usize = 200;

pub fn routes() -> Routes {
    Routes::new()
        .for_staff(routes!(list))
        .for_staff(routes!(get))
        .for_staff(routes!(suspend))
        .for_staff(routes!(reactivate))
        .for_staff(routes!(set_tier))
        .for_staff(routes!(change_limits))
        .for_staff(routes!(log))
        .for_staff(routes!(note))
        .for_staff(routes!(refund))
}

/// Customer account
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "email": "ada@example.com", "name": "Ada", "status": "active",
    "tier": "api_starter", "email_verified_at": "2026-11-20T18:06:00.123Z", "created_at": "2026-11-20T18:05:00.123Z",
    "own_limits": {"concurrent_sessions": 40, "profiles": null},
}))]
struct CustomerAccount {
    /// Account ID
    #[schema(value_type = String)]
    id: AccountId,
    /// E-mail address
    email: String,
    /// Name of the account owner
    name: String,
    /// Account status
    #[schema(schema_with = status)]
    status: AccountStatus,
    /// Tier of the account
    #[schema(schema_with = tier)]
    tier: Tier,
    /// Time the e-mail address was verified
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    email_verified_at: Option<Timestamp>,
    /// Time the account was created
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Limits that replace those of the tier
    own_limits: OwnLimits,
}

/// Limits of one account that replace those of its tier; null if the tier's limit applies
#[derive(Serialize, ToSchema)]
struct OwnLimits {
    /// Maximum number of live sessions
    #[schema(required = true)]
    concurrent_sessions: Option<u32>,
    /// Maximum number of profiles
    #[schema(required = true)]
    profiles: Option<u32>,
}

impl From<tiers::OwnLimits> for OwnLimits {
    fn from(own: tiers::OwnLimits) -> Self {
        let tiers::OwnLimits { concurrent_sessions, profiles } = own;
        Self { concurrent_sessions, profiles }
    }
}

fn status() -> RefOr<Schema> {
    named("AccountStatus", one_of(AccountStatus::NAMES, None))
}

impl From<accounts::Account> for CustomerAccount {
    fn from(account: accounts::Account) -> Self {
        let own_limits = account.own_limits().into();
        let accounts::Account { id, email, name, status, tier, email_verified_at, created_at, .. } = account;
        Self { id, email, name, status, tier, email_verified_at, created_at, own_limits }
    }
}

type CustomerAccountList = Page<CustomerAccount>;

impl ListItem for CustomerAccount {
    const LIST: &'static str = "CustomerAccountList";
    const MEANING: &'static str = "A page of accounts, newest first";
}

/// List accounts
///
/// Returns all accounts, including deleted ones.
#[utoipa::path(
    get, path = "/v1/admin/accounts", tag = "Staff", operation_id = "listCustomers",
    params(
        Paging,
        ("email" = Option<String>, Query, description = "Filter by e-mail address, in any spelling"),
        ("tier" = Option<String>, Query, description = "Filter by tier"),
        ("status" = Option<String>, Query, description = "Filter by status"),
    ),
    responses((status = 200, description = "A page", body = CustomerAccountList), Unauthorized, InvalidQuery, Database),
)]
async fn list(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<CustomerAccountList>> {
    let tier = filter(&query, "tier", |text| text.parse().ok());
    let wanted =
        both(both(query.parsed("email", EmailAddress::parse), tier), filter(&query, "status", AccountStatus::named));
    let ((email, tier), status) = query.filters(wanted, &app.config.limits)?;
    let filters = [email.as_ref().map(EmailAddress::key), query.text("tier")?, query.text("status")?];
    let id_of = |account: &accounts::Account| account.id.as_uuid();
    let page = lists::page(&app, &query, cursors("accounts", &filters), id_of, async |conn, before, limit| {
        let before = before.map(AccountId::from);
        accounts::list(conn, &Filter { email: email.as_ref(), tier, status, before, limit }).await
    });
    Ok(Answer(page.await?.map(CustomerAccount::from)))
}

/// Get an account
///
/// Deleted accounts are included.
#[utoipa::path(
    get, path = "/v1/admin/accounts/{id}", tag = "Staff", operation_id = "getCustomer",
    params(IdPath<AccountId>),
    responses((status = 200, description = "The account", body = CustomerAccount), Unauthorized, NoCustomer, Database),
)]
async fn get(_: Staff, State(app): State<App>, path: IdPath<AccountId>) -> Result<Answer<CustomerAccount>> {
    shown(&mut *app.db.acquire().await?, path.id()?).await
}

async fn shown(conn: &mut PgConnection, id: AccountId) -> Result<Answer<CustomerAccount>> {
    let found = accounts::find(conn, id).await?;
    Ok(Answer(found.ok_or_else(not_found::<AccountId>)?.into()))
}

/// Suspend an account
///
/// Disables the account's credentials and ends its live sessions.
#[utoipa::path(
    post, path = "/v1/admin/accounts/{id}/suspend", tag = "Staff", operation_id = "suspendCustomer",
    params(IdPath<AccountId>), request_body = ReasonBody,
    responses(
        (status = 200, description = "The account", body = CustomerAccount),
        Unauthorized, Body, NoCustomer, OutOfPlace, Database,
    ),
)]
async fn suspend(
    State(app): State<App>,
    StaffAction { id, by }: StaffAction<AccountId>,
) -> Result<Answer<CustomerAccount>> {
    let mut conn = app.db.acquire().await?;
    staff::suspend(&mut conn, id, &by).await?;
    shown(&mut conn, id).await
}

/// Reactivate an account
#[utoipa::path(
    post, path = "/v1/admin/accounts/{id}/reactivate", tag = "Staff", operation_id = "reactivateCustomer",
    params(IdPath<AccountId>), request_body = ReasonBody,
    responses(
        (status = 200, description = "The account", body = CustomerAccount),
        Unauthorized, Body, NoCustomer, OutOfPlace, Database,
    ),
)]
async fn reactivate(
    State(app): State<App>,
    StaffAction { id, by }: StaffAction<AccountId>,
) -> Result<Answer<CustomerAccount>> {
    let mut conn = app.db.acquire().await?;
    staff::reactivate(&mut conn, id, &by).await?;
    shown(&mut conn, id).await
}

/// Change of an account's tier
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"tier": "api_builder", "reason": "a trial, until the end of the month"}))]
struct SetTier {
    /// New tier
    #[schema(schema_with = tier)]
    tier: String,
    /// Tier that the caller saw; the request is a 409 if it has changed
    from: Option<String>,
    /// Reason, recorded in the logs
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

/// Move an account to another tier
///
/// Live sessions continue.
#[utoipa::path(
    post, path = "/v1/admin/accounts/{id}/tier", tag = "Staff", operation_id = "setCustomerTier",
    params(IdPath<AccountId>), request_body = SetTier,
    responses(
        (status = 200, description = "The account", body = CustomerAccount),
        Unauthorized, Body, NoCustomer, OutOfPlace, Database,
    ),
)]
async fn set_tier(
    staff: Staff,
    State(app): State<App>,
    path: IdPath<AccountId>,
    body: Unchecked<SetTier>,
) -> Result<Answer<CustomerAccount>> {
    let ((tier, from), by) = body.check(|SetTier { tier, from, reason }| {
        let tier = tier.parse::<Tier>().map_err(|message| Invalid::field("tier", message));
        let from = from.map(|from| from.parse::<Tier>().map_err(|message| Invalid::field("from", message)));
        both(both(tier, from.transpose()), staff.because(&reason))
    })?;
    let id = path.id()?;
    let mut conn = app.db.acquire().await?;
    staff::set_tier(&mut conn, id, from, tier, &by).await?;
    shown(&mut conn, id).await
}

/// Change of an account's limits. An absent limit does not change
#[derive(Deserialize, ToSchema)]
#[schema(as = UpdateCustomerLimits, example = json!({"concurrent_sessions": 40, "profiles": 500, "reason": "a load test, until Friday"}))]
struct ChangeLimits {
    /// Maximum number of live sessions; null for the limit of the tier
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>, maximum = 10_000)]
    concurrent_sessions: Option<OwnLimit>,
    /// Maximum number of profiles; null for the limit of the tier
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>, maximum = 1_000_000)]
    profiles: Option<OwnLimit>,
    /// Limits that the caller saw; the request is a 409 if one has changed
    from: Option<LimitsSeen>,
    /// Reason, recorded in the logs
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

/// Limits of the account that the caller saw; null or absent for the tier's limit
#[derive(Deserialize, ToSchema)]
struct LimitsSeen {
    /// Maximum number of live sessions
    concurrent_sessions: Option<u32>,
    /// Maximum number of profiles
    profiles: Option<u32>,
}

/// A limit of this account; null for the limit of its tier.
#[derive(Deserialize)]
#[serde(transparent)]
struct OwnLimit(Option<i64>);

/// Parses the change of one limit, which may be at most `max`.
fn limit_change(limit: Option<&OwnLimit>, name: &'static str, max: u32) -> Result<LimitChange, Invalid> {
    let number = match limit {
        None => return Ok(LimitChange::Unchanged),
        Some(OwnLimit(None)) => return Ok(LimitChange::Cleared),
        Some(OwnLimit(Some(number))) => u32::try_from(*number).ok().filter(|number| *number <= max),
    };
    number.map(LimitChange::Own).ok_or_else(|| Invalid::field(name, format!("must be 0 to {max}, or null")))
}

/// Change the limits of an account
///
/// Sets limits that replace those of the tier, even if the account moves to another tier. Sessions and profiles above a lower
/// limit are kept.
#[utoipa::path(
    patch, path = "/v1/admin/accounts/{id}/limits", tag = "Staff", operation_id = "updateCustomerLimits",
    params(IdPath<AccountId>), request_body = ChangeLimits,
    responses(
        (status = 200, description = "The account", body = CustomerAccount),
        Unauthorized, Body, NoCustomer, OutOfPlace, Database,
    ),
)]
async fn change_limits(
    staff: Staff,
    State(app): State<App>,
    path: IdPath<AccountId>,
    body: Unchecked<ChangeLimits>,
) -> Result<Answer<CustomerAccount>> {
    let ((changes, from), by) = body.check(|ChangeLimits { concurrent_sessions, profiles, from, reason }| {
        let sessions = limit_change(concurrent_sessions.as_ref(), "concurrent_sessions", MAX_OWN_SESSIONS);
        let profiles = limit_change(profiles.as_ref(), "profiles", MAX_OWN_PROFILES);
        let changes = both(sessions, profiles).and_then(|(concurrent_sessions, profiles)| {
            let changes = LimitChanges { concurrent_sessions, profiles };
            let message = "must have at least one of concurrent_sessions and profiles";
            if changes.is_empty() { Err(Invalid::field("body", message)) } else { Ok(changes) }
        });
        let from =
            from.map(|LimitsSeen { concurrent_sessions, profiles }| tiers::OwnLimits { concurrent_sessions, profiles });
        both(changes.map(|changes| (changes, from)), staff.because(&reason))
    })?;
    let id = path.id()?;
    let mut conn = app.db.acquire().await?;
    staff::change_limits(&mut conn, id, from, changes, &by).await?;
    shown(&mut conn, id).await
}

/// List the audit log of an account
///
/// Returns the log as the account owner reads it, without the payload members that reveal where an actor connected from.
#[utoipa::path(
    get, path = "/v1/admin/accounts/{id}/log", tag = "Staff", operation_id = "listCustomerLog",
    params(
        IdPath<AccountId>, Paging,
        ("action" = Option<String>, Query, description = "Filter by action", example = "session.created"),
    ),
    responses((status = 200, description = "A page", body = AuditPage), Unauthorized, InvalidQuery, NoCustomer, Database),
)]
async fn log(_: Staff, State(app): State<App>, path: IdPath<AccountId>, query: Query) -> Result<Answer<AuditPage>> {
    let account = path.id()?;
    let known = accounts::find(&mut *app.db.acquire().await?, account).await?;
    known.ok_or_else(not_found::<AccountId>)?;
    audit_log::page(&app, &query, Log { account, reader: None }, "account_log").await
}

/// Note about an account
#[derive(Deserialize, ToSchema)]
#[schema(as = Note, example = json!({"note": "Prefers to be called.", "reason": "ticket 4711"}))]
struct StaffNote {
    /// Text of the note
    #[schema(min_length = 1, max_length = 5000)]
    note: String,
    /// Reason, recorded in the logs
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

/// Add a note to an account
///
/// Writes the note to the account's audit log, where the account owner can read it.
#[utoipa::path(
    post, path = "/v1/admin/accounts/{id}/notes", tag = "Staff", operation_id = "recordNote",
    params(IdPath<AccountId>), request_body = StaffNote,
    responses(
        (status = 201, description = "The account", body = CustomerAccount),
        Unauthorized, Body, NoCustomer, Database,
    ),
)]
async fn note(
    staff: Staff,
    State(app): State<App>,
    path: IdPath<AccountId>,
    body: Unchecked<StaffNote>,
) -> Result<(StatusCode, Answer<CustomerAccount>)> {
    let (text, by) = body.check(|StaffNote { note, reason }| {
        let mut rules = Rules::default();
        rules.length(note.trim(), 1, NOTE_CHARS, "note");
        both(rules.check().map(|()| note), staff.because(&reason))
    })?;
    let id = path.id()?;
    let mut conn = app.db.acquire().await?;
    staff::note(&mut conn, id, text.trim(), &by).await?;
    Ok((StatusCode::CREATED, shown(&mut conn, id).await?))
}

/// Refund
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"amount_cents": 1900, "currency": "usd", "reference": "re_3MmlLrLkdIwHu7ix0snN0B15", "reason": "charged twice"}))]
struct RecordRefund {
    /// Amount in hundredths of the currency unit
    #[schema(minimum = 1)]
    amount_cents: i64,
    /// Currency, such as `usd`: 3 to 20 letters and digits
    #[schema(min_length = 3, max_length = 20)]
    currency: String,
    /// Reference of the refund at the payment provider
    #[schema(min_length = 1, max_length = 200)]
    reference: String,
    /// Reason, recorded in the logs
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

/// Record a refund
///
/// Records a refund that was made elsewhere; it moves no money.
#[utoipa::path(
    post, path = "/v1/admin/accounts/{id}/refunds", tag = "Staff", operation_id = "recordRefund",
    params(IdPath<AccountId>), request_body = RecordRefund,
    responses(
        (status = 201, description = "The account", body = CustomerAccount),
        Unauthorized, Body, NoCustomer, Database,
    ),
)]
async fn refund(
    staff: Staff,
    State(app): State<App>,
    path: IdPath<AccountId>,
    body: Unchecked<RecordRefund>,
) -> Result<(StatusCode, Answer<CustomerAccount>)> {
    let (refund, by) = body.check(|RecordRefund { amount_cents, currency, reference, reason }| {
        let (currency, reference) = (currency.trim().to_lowercase(), reference.trim().to_owned());
        let mut rules = Rules::default();
        rules.require(amount_cents > 0, "amount_cents", "must be at least 1");
        let plain = (3..=20).contains(&currency.len()) && currency.bytes().all(|byte| byte.is_ascii_alphanumeric());
        rules.require(plain, "currency", "must be 3 to 20 letters and digits");
        rules.length(&reference, 1, REFERENCE_CHARS, "reference");
        both(rules.check().map(|()| Refund { amount_cents, currency, reference }), staff.because(&reason))
    })?;
    let id = path.id()?;
    let mut conn = app.db.acquire().await?;
    staff::record_refund(&mut conn, id, &refund, &by).await?;
    Ok((StatusCode::CREATED, shown(&mut conn, id).await?))
}
