//! The caller's own account (contract: accounts).

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::accounts::{self, AccountName, AccountStatus};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::mfa;
use kitfleet_domain::teams::members;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::Json;
use crate::http::openapi::{Body, Database, Restricted, SteppingUp, named, one_of, tier};
use crate::http::permissions::{OWN_ACCOUNT, Rule};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::teams::TeamOwner;

const READ_ACCOUNT: Rule = Rule::scope(Scope::Read).open_to_free_devices().open_to_members_keys();

pub fn routes() -> Routes {
    Routes::new()
        .allow(READ_ACCOUNT, routes!(get))
        .allow(OWN_ACCOUNT, routes!(rename))
        .allow(Rule::person().after_step_up(), routes!(delete))
}

/// The caller's account
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "email": "ada@example.com", "name": "Ada", "status": "active",
    "tier": "api_starter", "email_verified_at": "2026-11-20T18:06:00.123Z", "created_at": "2026-11-20T18:05:00.123Z",
    "teams": [{
        "owner_account_id": "acc_019aa1c8-52f0-7bd6-8a0e-6a0b4a4f7d11", "owner_email": "grace@example.com",
        "owner_name": "Grace", "role": "member", "membership_id": "mem_019aa1d3-7c41-7e0f-a9e4-0f6b6c1f0a52",
    }],
    "mfa_enrolled": false, "has_password": true, "limits": {"concurrent_sessions": 2, "profiles": 25},
}))]
struct OwnAccount {
    /// Account ID
    #[schema(value_type = String)]
    id: AccountId,
    /// E-mail address of the account
    email: String,
    /// Display name of the account owner
    name: String,
    /// Status of the account; only an active account can make changes
    #[schema(schema_with = status)]
    status: AccountStatus,
    /// Tier of the account
    #[schema(schema_with = tier)]
    tier: Tier,
    /// Time the e-mail address was verified (RFC 3339); null before that
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    email_verified_at: Option<Timestamp>,
    /// Time the account was created (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Owners of the teams that the account is a member of
    teams: Vec<TeamOwner>,
    /// True when a second factor is enrolled
    mfa_enrolled: bool,
    /// False for an account whose owner signs in only by links or by another provider
    has_password: bool,
    /// Limits of the account: individual limits if set, otherwise those of its tier
    limits: AccountLimits,
}

fn status() -> RefOr<Schema> {
    named("AccountStatus", one_of(&["active", "suspended", "deleted"], None))
}

/// Limits of an account
#[derive(Serialize, ToSchema)]
struct AccountLimits {
    /// Maximum number of live sessions at the same time
    concurrent_sessions: u32,
    /// Maximum number of profiles
    profiles: u32,
}

/// Get the caller's account
#[utoipa::path(
    get, path = "/v1/account/me", tag = "Account", operation_id = "getAccount",
    responses((status = 200, description = "The account", body = OwnAccount), Restricted, Database),
)]
async fn get(caller: Caller, State(app): State<App>) -> Result<Answer<OwnAccount>> {
    let mut account = read(&app, caller.account_id).await?;
    // A team member's key does not reveal the teams of the account owner.
    if caller.actor.account() != Some(caller.account_id) {
        account.0.teams.clear();
    }
    Ok(account)
}

async fn read(app: &App, account: AccountId) -> Result<Answer<OwnAccount>> {
    let mut conn = app.db.acquire().await?;
    let account = accounts::find(&mut conn, account).await?.ok_or_else(Problem::account_gone)?;
    let owners = members::owners(&mut conn, account.id).await?;
    let mfa_enrolled = mfa::is_enrolled(&mut conn, account.id).await?;
    let has_password = accounts::has_password(&mut conn, account.id).await?;
    drop(conn);
    let (limits, own) = (&app.config.limits, account.own_limits());
    Ok(Answer(OwnAccount {
        mfa_enrolled,
        has_password,
        id: account.id,
        email: account.email,
        name: account.name,
        status: account.status,
        tier: account.tier,
        email_verified_at: account.email_verified_at,
        created_at: account.created_at,
        teams: owners.into_iter().map(TeamOwner::from).collect(),
        limits: AccountLimits {
            concurrent_sessions: limits.sessions_of(account.tier, own),
            profiles: limits.profiles_of(account.tier, own),
        },
    }))
}

/// Request body of an account update
#[derive(Deserialize, ToSchema)]
#[schema(as = UpdateAccount, example = json!({"name": "Ada Lovelace"}))]
struct Rename {
    /// Display name of the account owner
    #[schema(min_length = 1, max_length = 120)]
    name: String,
}

/// Update the caller's account
#[utoipa::path(
    patch, path = "/v1/account/me", tag = "Account", operation_id = "updateAccount",
    request_body = Rename,
    responses((status = 200, description = "The account", body = OwnAccount), Restricted, Body, Database),
)]
async fn rename(caller: Caller, State(app): State<App>, Json(body): Json<Rename>) -> Result<Answer<OwnAccount>> {
    let name = AccountName::parse(&body.name)?;
    if !accounts::rename(&mut *app.db.acquire().await?, caller.account_id, &name).await? {
        return Err(Problem::account_gone());
    }
    read(&app, caller.account_id).await
}

/// Request body of an account deletion
#[derive(Deserialize, ToSchema)]
#[schema(as = DeleteAccount, example = json!({"confirm": "delete-account"}))]
struct Delete {
    /// The literal `delete-account`
    #[schema(pattern = "^delete-account$")]
    confirm: String,
}

/// Delete the caller's account
///
/// Deletion is permanent. Live sessions are destroyed; API keys and web sessions are revoked. An account with a second factor
/// requires a recent second-factor proof.
#[utoipa::path(
    delete, path = "/v1/account/me", tag = "Account", operation_id = "deleteAccount",
    request_body = Delete,
    responses((status = 204, description = "The account is deleted"), Restricted, Body, SteppingUp, Database),
)]
async fn delete(caller: Caller, State(app): State<App>, body: Result<Json<Delete>>) -> Result<StatusCode> {
    if mfa::is_enrolled(&mut *app.db.acquire().await?, caller.account_id).await? {
        caller.require_step_up(app.config.auth.step_up_ttl)?;
    }
    let Json(body) = body?;
    if body.confirm != "delete-account" {
        return Err(Problem::invalid("confirm", "must be delete-account"));
    }
    let mut tx = app.db.begin().await?;
    kitfleet_jobs::accounts::delete(&mut tx, caller.account_id, &caller.actor).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
