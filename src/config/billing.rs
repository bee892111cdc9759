//! `billing.*`

use std::ops::RangeInclusive;
use std::time::Duration;

use kitfleet_domain::billing;
use kitfleet_payments::{CardConfig, CryptoConfig};
use kitfleet_types::tiers::Tier;
use serde::{Deserialize, Serialize};

use super::mistakes::ConfigError;
use super::values::{BaseUrl, Secret, duration, secret};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Billing {
    pub card: Card,
    pub crypto: CryptoSettings,
    pub prices: Prices,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Card {
    pub base_url: BaseUrl,
    #[serde(deserialize_with = "secret")]
    pub secret_key: Option<Secret>,
    #[serde(deserialize_with = "secret")]
    pub webhook_secret: Option<Secret>,
    #[serde(with = "duration")]
    pub timeout: Duration,
}

impl Default for Card {
    fn default() -> Self {
        let CardConfig { base_url, timeout, .. } = CardConfig::default();
        Self { base_url: BaseUrl::known(base_url), secret_key: None, webhook_secret: None, timeout }
    }
}

impl Card {
    pub fn config(&self) -> CardConfig {
        CardConfig {
            base_url: self.base_url.as_str().to_owned(),
            secret_key: revealed(self.secret_key.as_ref()),
            webhook_secret: revealed(self.webhook_secret.as_ref()),
            timeout: self.timeout,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct CryptoSettings {
    pub base_url: BaseUrl,
    #[serde(deserialize_with = "secret")]
    pub api_key: Option<Secret>,
    #[serde(deserialize_with = "secret")]
    pub ipn_secret: Option<Secret>,
    #[serde(with = "duration")]
    pub timeout: Duration,
    #[serde(with = "duration")]
    pub payment_window: Duration,
    #[serde(with = "duration")]
    pub period: Duration,
    /// From this age on, the service asks the processor for the status of an unpaid order.
    #[serde(with = "duration")]
    pub sweep_after: Duration,
}

impl Default for CryptoSettings {
    fn default() -> Self {
        let CryptoConfig { base_url, timeout, payment_window, period, sweep_after, .. } = CryptoConfig::default();
        let base_url = BaseUrl::known(base_url);
        Self { base_url, api_key: None, ipn_secret: None, timeout, payment_window, period, sweep_after }
    }
}

impl CryptoSettings {
    pub fn config(&self) -> CryptoConfig {
        CryptoConfig {
            base_url: self.base_url.as_str().to_owned(),
            api_key: revealed(self.api_key.as_ref()),
            ipn_secret: revealed(self.ipn_secret.as_ref()),
            timeout: self.timeout,
            payment_window: self.payment_window,
            period: self.period,
            sweep_after: self.sweep_after,
        }
    }
}

fn revealed(secret: Option<&Secret>) -> Option<String> {
    secret.map(|secret| secret.reveal().to_owned())
}

/// `billing.prices.*`, in cents; a tier without a price cannot be bought.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Prices {
    pub solo_manual: Option<u32>,
    pub team_manual: Option<u32>,
    pub agency_manual: Option<u32>,
    pub api_starter: Option<u32>,
    pub api_builder: Option<u32>,
    pub api_scale: Option<u32>,
    pub enterprise: Option<u32>,
}

/// Cents. The card provider accepts no higher price.
const PRICES: RangeInclusive<u32> = 1..=99_999_999;

impl Prices {
    fn of_tiers(&self) -> [(Tier, Option<u32>); 7] {
        [
            (Tier::SoloManual, self.solo_manual),
            (Tier::TeamManual, self.team_manual),
            (Tier::AgencyManual, self.agency_manual),
            (Tier::ApiStarter, self.api_starter),
            (Tier::ApiBuilder, self.api_builder),
            (Tier::ApiScale, self.api_scale),
            (Tier::Enterprise, self.enterprise),
        ]
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = self.of_tiers().into_iter().find(|(_, price)| price.is_some_and(|price| !PRICES.contains(&price)));
        match wrong {
            Some((tier, _)) => {
                Err(ConfigError(format!("`billing.prices.{}` must be 1 to {} cents", tier.name(), PRICES.end())))
            }
            None => Ok(()),
        }
    }
}

impl From<&Prices> for billing::Prices {
    fn from(prices: &Prices) -> Self {
        Self(prices.of_tiers().into_iter().filter_map(|(tier, price)| Some((tier, price?))).collect())
    }
}
