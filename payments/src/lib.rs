//! Payment providers, asked in their own words.
//!
//! A request is never sent twice from here, no redirect is followed, and no answer may be long or take its time.

mod card;
mod crypto;
mod exchange;

pub use self::card::{CardConfig, CardProvider, Payer, Purchase};
pub use self::crypto::{CryptoConfig, CryptoProcessor, Price};
pub use self::exchange::PaymentError;
