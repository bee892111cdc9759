//! What customers pay, and what payment providers tell of it (contract: billing).

mod card;
mod card_webhook;
pub mod crypto;
mod crypto_webhook;

use kitfleet_domain::accounts::Tier;
use utoipa::openapi::{RefOr, Schema};

use crate::http::openapi::{named, one_of};
use crate::http::routing::Routes;

pub fn routes() -> Routes {
    Routes::new()
        .merge(card::routes())
        .merge(card_webhook::routes())
        .merge(crypto::routes())
        .merge(crypto_webhook::routes())
}

fn paid_tier() -> RefOr<Schema> {
    let names: Vec<_> = Tier::NAMES.iter().copied().filter(|name| *name != Tier::Free.name()).collect();
    named("PaidTier", one_of(&names, None))
}
