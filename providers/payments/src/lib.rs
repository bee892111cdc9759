//! Clients of payment providers.
//!
//! Requests are never retried, redirects are not followed, and the size and time of responses are limited.

mod card;
mod crypto;
mod exchange;

pub use self::card::{CardConfig, CardProvider, Payer, Purchase};
pub use self::crypto::{CryptoConfig, CryptoProcessor, Price};
pub use self::exchange::PaymentError;
