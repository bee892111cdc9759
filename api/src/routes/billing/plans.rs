//! Plans (contract: billing 44): the tiers, with their prices and limits on this deployment.

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::billing::CURRENCY;
use kitfleet_types::tiers::{OwnLimits, Tier};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::lists::{List, ListItem};
use crate::http::openapi::{Database, Restricted, tier};
use crate::http::permissions::OWN_ACCOUNT;
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new().allow(OWN_ACCOUNT, routes!(list))
}

/// A tier with its price and limits
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "tier": "api_builder", "price_cents": 9900, "currency": "usd", "period": "month",
    "limits": {"concurrent_sessions": 10, "profiles": 100}, "purchasable": true,
}))]
struct Plan {
    /// Tier of the plan
    #[schema(schema_with = tier)]
    tier: Tier,
    /// Price in cents for a period; null if the tier has no price on this deployment
    #[schema(required = true)]
    price_cents: Option<u32>,
    /// Currency of the price
    currency: &'static str,
    /// Period of the price: `month`
    period: &'static str,
    limits: PlanLimits,
    /// True if the tier can be bought
    purchasable: bool,
}

/// Limits of a tier
#[derive(Serialize, ToSchema)]
struct PlanLimits {
    /// Maximum number of live sessions at the same time
    concurrent_sessions: u32,
    /// Maximum number of profiles
    profiles: u32,
}

type PlanList = List<Plan>;

impl ListItem for Plan {
    const LIST: &'static str = "PlanList";
    const MEANING: &'static str = "Plans, from the smallest to the largest";
}

/// List plans
///
/// Returns all tiers with their prices and limits. The free tier has no price and cannot be bought.
#[utoipa::path(
    get, path = "/v1/billing/plans", tag = "Billing", operation_id = "listPlans",
    responses((status = 200, description = "The plans", body = PlanList), Restricted, Database),
)]
async fn list(_caller: Caller, State(app): State<App>) -> Result<Answer<PlanList>> {
    let (limits, prices) = (&app.config.limits, &app.config.prices);
    let plans = Tier::ALL.iter().map(|&tier| {
        let price_cents = prices.of(tier);
        let none = OwnLimits::default();
        Plan {
            tier,
            price_cents,
            currency: CURRENCY,
            period: "month",
            limits: PlanLimits {
                concurrent_sessions: limits.sessions_of(tier, none),
                profiles: limits.profiles_of(tier, none),
            },
            purchasable: price_cents.is_some(),
        }
    });
    Ok(Answer(plans.collect()))
}
