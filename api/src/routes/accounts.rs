//! One's own account (contract: accounts).

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::accounts::{self, AccountName, AccountStatus, Tier};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::ids::AccountId;
use kitfleet_domain::mfa;
use kitfleet_domain::teams::members;
use kitfleet_domain::timestamp::Timestamp;
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

/// One's own account
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "email": "ada@example.com", "name": "Ada", "status": "active",
    "tier": "api_starter", "email_verified_at": "2026-11-20T18:06:00.123Z", "created_at": "2026-11-20T18:05:00.123Z",
    "teams": [{
        "owner_account_id": "acc_019aa1c8-52f0-7bd6-8a0e-6a0b4a4f7d11", "owner_email": "grace@example.com",
        "owner_name": "Grace", "role": "member", "membership_id": "mem_019aa1d3-7c41-7e0f-a9e4-0f6b6c1f0a52",
    }],
    "mfa_enrolled": false, "limits": {"concurrent_sessions": 2, "profiles": 25},
}))]
struct OwnAccount {
    /// Its id
    #[schema(value_type = String)]
    id: AccountId,
    /// Where its mail goes
    email: String,
    /// What its owner is called
    name: String,
    /// Whether it may act
    #[schema(schema_with = status)]
    status: AccountStatus,
    /// What it pays for
    #[schema(schema_with = tier)]
    tier: Tier,
    /// When its address was proven
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    email_verified_at: Option<Timestamp>,
    /// When it signed up
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The owners whose teams it is on
    teams: Vec<TeamOwner>,
    /// Whether it has a second factor
    mfa_enrolled: bool,
    /// What it may have at once: limits of its own, or else those of its tier
    limits: AccountLimits,
}

fn status() -> RefOr<Schema> {
    named("AccountStatus", one_of(&["active", "suspended", "deleted"], None))
}

/// What an account may have at once
#[derive(Serialize, ToSchema)]
struct AccountLimits {
    /// Live sessions at once
    concurrent_sessions: u32,
    /// Profiles
    profiles: u32,
}

/// Get one's own account
#[utoipa::path(
    get, path = "/v1/account/me", tag = "Account", operation_id = "getAccount",
    responses((status = 200, description = "The account", body = OwnAccount), Restricted, Database),
)]
async fn get(caller: Caller, State(app): State<App>) -> Result<Answer<OwnAccount>> {
    let mut account = read(&app, caller.account_id).await?;
    // Whose teams the owner is on is nothing to a member whose key this is.
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
    drop(conn);
    let (limits, own) = (&app.config.limits, account.own_limits());
    Ok(Answer(OwnAccount {
        mfa_enrolled,
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

/// Body of an account's change
#[derive(Deserialize, ToSchema)]
#[schema(as = UpdateAccount, example = json!({"name": "Ada Lovelace"}))]
struct Rename {
    /// What its owner is called
    #[schema(min_length = 1, max_length = 120)]
    name: String,
}

/// Change one's own account
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

/// Body of an account's deletion
#[derive(Deserialize, ToSchema)]
#[schema(as = DeleteAccount, example = json!({"confirm": "delete-account"}))]
struct Delete {
    /// `delete-account`
    #[schema(pattern = "^delete-account$")]
    confirm: String,
}

/// Delete one's own account
///
/// For good: live sessions are destroyed, keys and web sessions revoked. An account with a second factor needs a fresh
/// proof.
#[utoipa::path(
    delete, path = "/v1/account/me", tag = "Account", operation_id = "deleteAccount",
    request_body = Delete,
    responses((status = 204, description = "It is deleted"), Restricted, Body, SteppingUp, Database),
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
