//! Purchases by customers and webhooks of the payment providers (contract: billing).

mod card;
mod card_webhook;
pub mod crypto;
mod crypto_webhook;
mod plans;

use kitfleet_payments::PaymentError;
use kitfleet_types::tiers::Tier;
use utoipa::openapi::{RefOr, Schema};

use crate::http::error::Problem;
use crate::http::kinds;
use crate::http::openapi::{named, one_of};
use crate::http::routing::Routes;

pub fn routes() -> Routes {
    Routes::new()
        .merge(card::routes())
        .merge(card_webhook::routes())
        .merge(crypto::routes())
        .merge(crypto_webhook::routes())
        .merge(plans::routes())
}

fn paid_tier() -> RefOr<Schema> {
    let names: Vec<_> = Tier::NAMES.iter().copied().filter(|name| *name != Tier::Free.name()).collect();
    named("PaidTier", one_of(&names, None))
}

impl From<PaymentError> for Problem {
    fn from(error: PaymentError) -> Self {
        let detail = error.to_string();
        let failed = |detail: String| {
            tracing::warn!(detail, "payment provider request failed");
            Self::new(&kinds::DRIVER_ERROR, detail).titled("PaymentProviderError")
        };
        match error {
            PaymentError::Unconfigured => Self::new(&kinds::FEATURE_UNAVAILABLE, detail),
            PaymentError::Refused(status) => failed(detail).with("provider_status", status),
            PaymentError::Unreachable | PaymentError::Late | PaymentError::Unusable => failed(detail),
        }
    }
}
