//! Selects the decomposer of a customer's message (contract: byok 16): a model, which costs money, or the grammar, which is free.

use kitfleet_types::ids::AccountId;
use sqlx::PgConnection;

use crate::byok::{self, ModelAccess, Provider, SealedKey};
use crate::metrics::Counter;

const CONSENT_MISSING: &str = "consent_missing";
const BUDGET_EXHAUSTED: &str = "budget_exhausted";

pub(super) const BUNDLED_ERRORS: Counter<1> = Counter::new(
    "service_bundled_llm_error_total",
    "Messages that were not sent to the deployment's model, by reason.",
    ["kind"],
)
.starting_with(|| vec![[CONSENT_MISSING], [BUDGET_EXHAUSTED]]);

#[derive(Debug)]
pub enum Decomposer {
    OwnKey(SealedKey),
    Bundled,
    Deterministic {
        /// The account could use a model if it gave its consent.
        consent_missing: bool,
    },
}

impl Decomposer {
    #[must_use]
    pub fn of(means: ModelAccess, has_bundled: bool) -> Self {
        let ModelAccess { mut keys, consented } = means;
        keys.sort_by_key(|key| Provider::ALL.iter().position(|provider| *provider == key.provider));
        match (keys.into_iter().next(), has_bundled) {
            (Some(key), _) => Self::OwnKey(key),
            (None, true) if consented => Self::Bundled,
            (None, has_bundled) => Self::Deterministic { consent_missing: has_bundled },
        }
    }
}

/// A missing consent increments a metric.
pub async fn choose(conn: &mut PgConnection, account: AccountId, has_bundled: bool) -> sqlx::Result<Decomposer> {
    let decomposer = Decomposer::of(byok::model_access(conn, account).await?, has_bundled);
    if let Decomposer::Deterministic { consent_missing: true } = decomposer {
        BUNDLED_ERRORS.with([CONSENT_MISSING]).increment(1);
    }
    Ok(decomposer)
}

/// The budget of the deployment's model is exhausted.
pub fn count_exhausted_budget() {
    BUNDLED_ERRORS.with([BUDGET_EXHAUSTED]).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: byok 16.
    #[test]
    fn own_key_precedes_deployment_key_precedes_grammar() {
        let account = AccountId::generate();
        let chosen = |keys: &[Provider], consented: bool, has_bundled: bool| {
            let keys = keys.iter().map(|provider| SealedKey::new(account, *provider, Vec::new())).collect();
            match Decomposer::of(ModelAccess { keys, consented }, has_bundled) {
                Decomposer::OwnKey(key) => key.provider.name(),
                Decomposer::Bundled => "bundled",
                Decomposer::Deterministic { consent_missing: true } => "consent missing",
                Decomposer::Deterministic { consent_missing: false } => "deterministic",
            }
        };
        let both = [Provider::Openai, Provider::Anthropic];
        for consented in [false, true] {
            for has_bundled in [false, true] {
                assert_eq!(chosen(&both, consented, has_bundled), "anthropic");
                assert_eq!(chosen(&both[..1], consented, has_bundled), "openai");
            }
            assert_eq!(chosen(&[], consented, false), "deterministic");
        }
        assert_eq!(chosen(&[], true, true), "bundled");
        assert_eq!(chosen(&[], false, true), "consent missing");
    }
}
