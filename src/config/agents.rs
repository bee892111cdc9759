//! `agents.*`

use std::time::Duration;

use kitfleet_domain::agents::Settings;
use serde::{Deserialize, Serialize};

use super::Config;
use super::values::duration;

/// `agents.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Agents {
    /// How long a human who drives may be silent.
    #[serde(with = "duration")]
    pub heartbeat_timeout: Duration,
    /// Tokens that models may use for an agent session that asks for no number.
    pub default_token_budget: u32,
    /// Tokens that an agent session may ask for.
    pub max_token_budget: u32,
    /// Steps of one turn.
    pub max_steps_per_turn: usize,
    /// How long an element that is described in words may take to appear.
    #[serde(with = "duration")]
    pub locate_timeout: Duration,
    /// How long a turn may take before it begins no further step.
    #[serde(with = "duration")]
    pub turn_timeout: Duration,
    /// Bytes of what the steps of a turn come to, as JSON.
    pub turn_result_bytes: usize,
}

impl Default for Agents {
    fn default() -> Self {
        let defaults = Settings::default();
        Self {
            heartbeat_timeout: defaults.heartbeat_timeout,
            default_token_budget: defaults.default_token_budget,
            max_token_budget: defaults.max_token_budget,
            max_steps_per_turn: defaults.max_steps_per_turn,
            locate_timeout: defaults.locate_timeout,
            turn_timeout: defaults.turn_timeout,
            turn_result_bytes: defaults.turn_result_bytes,
        }
    }
}

impl Config {
    /// What the API and workers are told of all that.
    pub(crate) fn agents(&self) -> Settings {
        let agents = &self.agents;
        Settings {
            heartbeat_timeout: agents.heartbeat_timeout,
            default_token_budget: agents.default_token_budget,
            max_token_budget: agents.max_token_budget,
            max_steps_per_turn: agents.max_steps_per_turn,
            locate_timeout: agents.locate_timeout,
            turn_timeout: agents.turn_timeout,
            turn_result_bytes: agents.turn_result_bytes,
        }
    }
}
