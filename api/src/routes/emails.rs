//! E-mail preferences of an account (contract: emails 6, 7).

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::emails::{self, EventType, Preference};
use kitfleet_domain::teams::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::Unchecked;
use crate::http::lists::{List, ListItem};
use crate::http::openapi::{Body, Database, Restricted, named, one_of};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;

const READ_PREFERENCES: Rule = Rule::scope(Scope::AccountOwner).for_team(Role::Member);
const CHANGE_PREFERENCES: Rule = Rule::scope(Scope::AccountOwner).for_team(Role::Admin);

pub fn routes() -> Routes {
    Routes::new().allow(READ_PREFERENCES, routes!(list)).allow(CHANGE_PREFERENCES, routes!(set))
}

/// An e-mail preference
#[derive(Serialize, ToSchema)]
#[schema(as = EmailPreference, example = json!({"event_type": "tier-changed", "opted_in": true}))]
struct Wire {
    #[schema(schema_with = event_type)]
    event_type: &'static str,
    /// True when the account receives these mails, which is the default
    opted_in: bool,
}

impl From<Preference> for Wire {
    fn from(preference: Preference) -> Self {
        Self { event_type: preference.event_type.name(), opted_in: preference.opted_in }
    }
}

fn event_type() -> RefOr<Schema> {
    named("OptionalEmail", one_of(EventType::NAMES, None))
}

type EmailPreferenceList = List<Wire>;

impl ListItem for Wire {
    const LIST: &'static str = "EmailPreferenceList";
    const MEANING: &'static str = "All kinds of mail with an opt-out";
}

/// List e-mail preferences
///
/// Other kinds of mail have no opt-out.
#[utoipa::path(
    get, path = "/v1/account/email-preferences", tag = "Account", operation_id = "listEmailPreferences",
    responses((status = 200, description = "The preferences", body = EmailPreferenceList), Restricted, Database),
)]
async fn list(caller: Caller, State(app): State<App>) -> Result<Answer<EmailPreferenceList>> {
    let mut conn = app.db.acquire().await?;
    let preferences = emails::preferences(&mut conn, caller.account_id).await?;
    Ok(Answer(preferences.map(Wire::from).into_iter().collect()))
}

/// An update of an e-mail preference
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"event_type": "tier-changed", "opted_in": false}))]
struct EmailPreferenceChange {
    #[schema(schema_with = event_type)]
    event_type: String,
    opted_in: bool,
}

/// Update an e-mail preference
#[utoipa::path(
    put, path = "/v1/account/email-preferences", tag = "Account", operation_id = "setEmailPreference",
    request_body = EmailPreferenceChange,
    responses((status = 200, description = "The current preference", body = Wire), Restricted, Body, Database),
)]
async fn set(caller: Caller, State(app): State<App>, body: Unchecked<EmailPreferenceChange>) -> Result<Answer<Wire>> {
    let preference = body.check(|EmailPreferenceChange { event_type, opted_in }| {
        Ok(Preference { event_type: event_type.parse()?, opted_in })
    })?;
    let account = caller.account_id;
    // Opting out is exempt from the limit on changes: opting in counts for both.
    let mut tx =
        if preference.opted_in { app.begin_change_with_undoing(account).await? } else { app.db.begin().await? };
    // A request that changes nothing is rolled back together with its count.
    if emails::set_preference(&mut tx, account, &caller.actor, preference).await? {
        tx.commit().await?;
    }
    Ok(Answer(preference.into()))
}
