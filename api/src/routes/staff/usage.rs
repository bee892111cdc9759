//! Usage of all accounts, for staff.

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::usage;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use kitfleet_types::validation::both;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::filter;
use crate::http::auth::staff::Staff;
use crate::http::error::Result;
use crate::http::lists::{List, ListItem, Query};
use crate::http::openapi::{Database, InvalidQuery, Unauthorized, tier};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::usage::MonthTotals;

/// Default number of accounts in the list.
const TOP_DEFAULT: u32 = 10;
/// Maximum number of accounts in the list.
const TOP_MAX: u32 = 100;

pub fn routes() -> Routes {
    Routes::new().for_staff(routes!(list))
}

/// Usage of an account
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "email": "ada@example.com", "tier": "api_builder",
    "live_sessions": 3, "totals": {
        "session_minute": 412, "navigate": 96, "interact": 803, "wait": 120, "state_capture": 44,
        "screenshot_capture": 31,
    },
}))]
struct AccountUsage {
    /// ID of the account
    #[schema(value_type = String)]
    account_id: AccountId,
    /// E-mail address of the account
    email: String,
    /// Tier of the account
    #[schema(schema_with = tier)]
    tier: Tier,
    /// Live sessions now
    live_sessions: i64,
    totals: MonthTotals,
}

impl From<usage::AccountUsage> for AccountUsage {
    fn from(used: usage::AccountUsage) -> Self {
        let usage::AccountUsage { account_id, email, tier, live_sessions, totals } = used;
        Self { account_id, email, tier, live_sessions, totals: totals.into() }
    }
}

type AccountUsageList = List<AccountUsage>;

impl ListItem for AccountUsage {
    const LIST: &'static str = "AccountUsageList";
    const MEANING: &'static str = "Accounts, those with the most usage first";
}

/// List the accounts with the most usage
///
/// Covers the last UTC days, including today, ordered by session minutes and then by operations. Accounts without usage are
/// omitted.
#[utoipa::path(
    get, path = "/v1/admin/usage", tag = "Staff", operation_id = "listCustomerUsage",
    params(
        ("top" = Option<u32>, Query, minimum = 1, maximum = 100, description = "Maximum number of accounts, 10 by default"),
        ("days" = Option<u32>, Query, minimum = 1, maximum = 90, description = "Number of days, 30 by default"),
        ("account_id" = Option<String>, Query, description = "Only this account"),
    ),
    responses((status = 200, description = "The accounts", body = AccountUsageList), Unauthorized, InvalidQuery, Database),
)]
async fn list(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<AccountUsageList>> {
    let limits = &app.config.limits;
    let days = query.number("days", limits.usage_days_default, limits.usage_days_max);
    let account = filter(&query, "account_id", |text| text.parse().ok());
    let ((top, days), account) = both(both(query.number("top", TOP_DEFAULT, TOP_MAX), days), account)?;
    let used = usage::by_account(&mut *app.db.acquire().await?, days, account, i64::from(top)).await?;
    Ok(Answer(used.into_iter().map(AccountUsage::from).collect()))
}
