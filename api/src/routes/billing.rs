//! What customers pay, and what payment providers tell of it (contract: billing).

mod card;
mod card_webhook;

use crate::http::routing::Routes;

pub fn routes() -> Routes {
    Routes::new().merge(card::routes()).merge(card_webhook::routes())
}
