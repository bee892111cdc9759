//! Errors of the configuration: one line that names the key and shows no secret (contract: configuration 4).

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use kitfleet_domain::workers::MAX_SESSIONS;
use kitfleet_types::limits::MAX_RESULT_BYTES;
use tracing_subscriber::EnvFilter;

use super::recordings::Recordings;
use super::{Config, Variable};
use crate::descriptors;

/// Largest value of a database column.
const MAX_TOKENS: u32 = i32::MAX.unsigned_abs();
/// A caller stops waiting half a minute after the time limit of an operation.
const MAX_TEARDOWN: Duration = Duration::from_secs(25);

#[derive(Debug, thiserror::Error)]
#[error("configuration: {0}")]
pub struct ConfigError(pub(super) String);

impl Config {
    /// Where a time limit or a lifetime is needed.
    fn check_durations(&self) -> Result<(), ConfigError> {
        let durations = [
            ("sessions.open_timeout", self.sessions.open_timeout),
            ("server.header_timeout", self.server.header_timeout),
            ("server.body_timeout", self.server.body_timeout),
            ("server.write_timeout", self.server.write_timeout),
            ("limits.default_form_timeout", self.limits.default_form_timeout),
            ("limits.form_work", self.limits.form_work),
            ("limits.form_teardown", self.limits.form_teardown),
            ("agents.heartbeat_timeout", self.agents.heartbeat_timeout),
            ("agents.turn_timeout", self.agents.turn_timeout),
            ("webhooks.timeout", self.webhooks.timeout),
            ("auth.session_ttl", self.auth.session_ttl),
            ("auth.verification_ttl", self.auth.verification_ttl),
            ("auth.magic_link_ttl", self.auth.magic_link_ttl),
            ("auth.reset_ttl", self.auth.reset_ttl),
            ("auth.challenge_ttl", self.auth.challenge_ttl),
            ("auth.step_up_ttl", self.auth.step_up_ttl),
            ("auth.device_code_ttl", self.auth.device_code_ttl),
            ("auth.device_bound_ttl", self.auth.device_bound_ttl),
            ("egress.probe_interval", self.egress.probe_interval),
            ("live.ticket_ttl", self.live.ticket_ttl),
            ("status.confirm_ttl", self.status.confirm_ttl),
            ("billing.card.timeout", self.billing.card.timeout),
            ("billing.crypto.timeout", self.billing.crypto.timeout),
            ("billing.crypto.period", self.billing.crypto.period),
            ("billing.crypto.payment_window", self.billing.crypto.payment_window),
        ];
        match durations.into_iter().find(|(_, duration)| duration.is_zero()) {
            Some((key, _)) => Err(ConfigError(format!("`{key}` must be longer than 0"))),
            None => Ok(()),
        }
    }

    fn rules_of_recordings(&self) -> [(bool, &'static str, &'static str); 4] {
        [
            (self.recordings.max_streams >= 1, "recordings.max_streams", "must be at least 1"),
            (
                self.recordings.session_bytes <= Recordings::MAX_SESSION_BYTES,
                "recordings.session_bytes",
                "must be at most 2147483648",
            ),
            (
                self.recordings.account_bytes >= self.recordings.session_bytes,
                "recordings.account_bytes",
                "must be at least `recordings.session_bytes`",
            ),
            (
                self.retention.recordings <= self.retention.ended_sessions,
                "retention.recordings",
                "must be at most `retention.ended_sessions`",
            ),
        ]
    }

    fn rules_of_agents(&self) -> [(bool, &'static str, &'static str); 7] {
        let agents = &self.agents;
        [
            ((1..=MAX_TOKENS).contains(&agents.max_token_budget), "agents.max_token_budget", "must be 1 to 2147483647"),
            (agents.default_token_budget >= 1, "agents.default_token_budget", "must be at least 1"),
            (
                agents.default_token_budget <= agents.max_token_budget,
                "agents.default_token_budget",
                "must not exceed agents.max_token_budget",
            ),
            ((1..=1_000).contains(&agents.max_steps_per_turn), "agents.max_steps_per_turn", "must be 1 to 1000"),
            (agents.max_turns >= 1, "agents.max_turns", "must be at least 1"),
            (agents.max_transcript_bytes >= 1, "agents.max_transcript_bytes", "must be at least 1"),
            (agents.turn_result_bytes >= 1, "agents.turn_result_bytes", "must be at least 1"),
        ]
    }

    /// They need more than the type of one value.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        let rules = [
            (
                self.database.listen_url.is_none() || self.database.url.is_some(),
                "database.listen_url",
                "needs database.url, which is not set",
            ),
            ((8..=10_000).contains(&self.database.max_connections), "database.max_connections", "must be 8 to 10000"),
            ((1..=MAX_SESSIONS).contains(&self.worker.max_sessions), "worker.max_sessions", "must be 1 to 10000"),
            (!self.worker.name.trim().is_empty(), "worker.name", "must not be empty"),
            (
                !self.worker.live_listen.ip().is_unspecified(),
                "worker.live_listen",
                "must be an address at which API processes can reach this machine",
            ),
            (
                self.sessions.max_age.is_none_or(|age| age >= Duration::from_secs(1)),
                "sessions.max_age",
                "must be at least a second",
            ),
            (
                (0.0..=1.0).contains(&self.sessions.challenge_confidence),
                "sessions.challenge_confidence",
                "must be 0 to 1",
            ),
            (self.server.max_connections >= 4, "server.max_connections", "must be at least 4"),
            (self.server.max_connections_per_address >= 1, "server.max_connections_per_address", "must be at least 1"),
            (
                self.worker.session_connections >= descriptors::MIN_SESSION_CONNECTIONS,
                "worker.session_connections",
                "must be at least 24",
            ),
            (
                self.traces.url.as_ref().is_none_or(|url| ["http", "https"].contains(&url.scheme())),
                "traces.url",
                "must begin with http:// or https://",
            ),
            ((0.0..=1.0).contains(&self.traces.ratio), "traces.ratio", "must be 0 to 1"),
            (EnvFilter::try_new(&self.log.filter).is_ok(), "log.filter", "must be a filter such as info,sqlx=warn"),
            (limits.min_timeout <= limits.max_timeout, "limits.min_timeout", "must not exceed limits.max_timeout"),
            (self.auth.oauth_token_ttl >= Duration::from_secs(1), "auth.oauth_token_ttl", "must be at least a second"),
            (
                limits.default_form_timeout <= limits.max_form_timeout,
                "limits.default_form_timeout",
                "must not exceed limits.max_form_timeout",
            ),
            (limits.form_teardown <= MAX_TEARDOWN, "limits.form_teardown", "must be 25s at most"),
            (limits.password_min_chars >= 1, "limits.password_min_chars", "must be at least 1"),
            (
                limits.password_min_chars <= limits.password_max_chars,
                "limits.password_min_chars",
                "must not exceed the maximum of a password, 1,024",
            ),
            (
                limits.device_state_min_chars <= limits.device_state_max_chars,
                "limits.device_state_min_chars",
                "must not exceed limits.device_state_max_chars",
            ),
            (self.webhooks.auto_disable_after >= 1, "webhooks.auto_disable_after", "must be at least 1"),
            (self.notifications.max_streams >= 1, "notifications.max_streams", "must be at least 1"),
            (limits.webhook_events >= 1, "limits.webhook_events", "must be at least 1"),
            (limits.recovery_codes >= 1, "limits.recovery_codes", "must be at least 1"),
            (limits.challenge_guesses >= 1, "limits.challenge_guesses", "must be at least 1"),
            (limits.mfa_guesses >= 1, "limits.mfa_guesses", "must be at least 1"),
            (limits.page_default >= 1, "limits.page_default", "must be at least 1"),
            (limits.page_default <= limits.page_max, "limits.page_default", "must not exceed limits.page_max"),
            (limits.audit_export_rows >= 1, "limits.audit_export_rows", "must be at least 1"),
            (limits.usage_days_default >= 1, "limits.usage_days_default", "must be at least 1"),
            (
                limits.usage_days_default <= limits.usage_days_max,
                "limits.usage_days_default",
                "must not exceed limits.usage_days_max",
            ),
            (
                (1..=MAX_RESULT_BYTES).contains(&limits.result_bytes),
                "limits.result_bytes",
                "must be 1 to 15728640, 15 MiB",
            ),
            (limits.usage_days_max <= 3_650, "limits.usage_days_max", "must be at most 3650"),
        ];
        let mut rules = rules.into_iter().chain(self.rules_of_recordings()).chain(self.rules_of_agents());
        if let Some((_, key, rule)) = rules.find(|(holds, ..)| !holds) {
            return Err(ConfigError(format!("`{key}` {rule}")));
        }
        self.check_durations()?;
        self.billing.prices.check()?;
        self.webhooks()?;
        self.stores()?;
        self.models()?;
        self.probing()?;
        self.email.mail_at(&self.server.base_url_at(self.server.listen)).map(drop)
    }
}

/// Place of an unknown key.
pub(super) fn origin(key: &str, file: Option<&Path>, variables: &HashMap<String, Variable>) -> String {
    if let Some(name) = variable_of(key, variables) {
        return format!(", environment variable {name}");
    }
    file.map(|file| format!(", in {}", file.display())).unwrap_or_default()
}

/// Variable that sets `key` or a key below it.
fn variable_of<'a>(key: &str, variables: &'a HashMap<String, Variable>) -> Option<&'a str> {
    let name = variable_name(key);
    let sets = |ours: &str| {
        let ours = ours.to_uppercase();
        ours == name || ours.strip_prefix(&name).is_some_and(|rest| rest.starts_with("__"))
    };
    variables.iter().find(|(ours, _)| sets(ours)).map(|(_, variable)| variable.name.as_str())
}

fn variable_name(key: &str) -> String {
    format!("KITFLEET_{}", key.to_uppercase().replace('.', "__"))
}

pub(super) fn bad_value(
    error: &serde_path_to_error::Error<config::ConfigError>,
    variables: &HashMap<String, Variable>,
) -> ConfigError {
    let key = error.path().to_string();
    let reason = one_line(error.inner()).0;
    // The crate appends the key and its own name for the environment to some messages.
    let reason = reason.split(" for key `").next().unwrap_or(&reason);
    let variable = variable_of(&key, variables);
    // A value of the wrong type may be a secret in place of its table, so that the message must not show it.
    let reason = match reason.rsplit_once(", expected ") {
        Some((found, expected)) if found.starts_with("invalid type") => {
            let spelled: fn(&str) -> String = if variable.is_some() { variable_name } else { quoted };
            wrong_type(&key, expected, spelled)
        }
        _ => reason.to_owned(),
    };
    let place = variable.map(|name| format!(", environment variable {name}")).unwrap_or_default();
    ConfigError(format!("`{key}`{place}: {reason}"))
}

/// In the words of the documentation. serde expects the types of Rust.
fn wrong_type(key: &str, expected: &str, spelled: fn(&str) -> String) -> String {
    if expected == "a map" || expected.starts_with("struct ") {
        let example = example_key(key).map(|example| format!(", such as {}", spelled(&example))).unwrap_or_default();
        return format!("is a section: set its keys{example}");
    }
    format!("must be {}", if expected == "a sequence" { "a list" } else { expected })
}

fn quoted(key: &str) -> String {
    format!("`{key}`")
}

/// First key of a section, preferably one that has a default.
fn example_key(section: &str) -> Option<String> {
    let defaults = serde_json::to_value(Config::default()).ok()?;
    let section_value = section.split('.').try_fold(&defaults, |value, name| value.get(name))?;
    let keys = || section_value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_object());
    let (name, _) = keys().find(|(_, value)| !value.is_null()).or_else(|| keys().next())?;
    Some(format!("{section}.{name}"))
}

/// Names the place of an error (contract: configuration 4). The message of the parser would show the line, which may
/// contain a secret. The crate would report a folder as a missing file.
pub(super) fn check_syntax(path: &Path) -> Result<(), ConfigError> {
    let text =
        fs::read_to_string(path).map_err(|error| ConfigError(format!("{} cannot be read: {error}", path.display())))?;
    text.parse::<toml::Table>().map(drop).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        ConfigError(format!("{}, line {line}: {}", path.display(), error.message()))
    })
}

pub(super) fn one_line(error: &dyn fmt::Display) -> ConfigError {
    ConfigError(error.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_types_are_reported_in_documented_terms() {
        type Spelling = fn(&str) -> String;
        let (in_a_variable, in_a_file): (Spelling, Spelling) = (variable_name, quoted);
        for (key, expected, spelled, reason) in [
            ("log", "struct Log", in_a_variable, "is a section: set its keys, such as KITFLEET_LOG__FILTER"),
            ("log", "struct Log", in_a_file, "is a section: set its keys, such as `log.filter`"),
            ("server", "struct Server", in_a_variable, "is a section: set its keys, such as KITFLEET_SERVER__LISTEN"),
            ("auth.providers", "a map", in_a_file, "is a section: set its keys"),
            ("server.cors_origins", "a sequence", in_a_file, "must be a list"),
            ("limits.page_default", "an integer", in_a_variable, "must be an integer"),
        ] {
            assert_eq!(wrong_type(key, expected, spelled), reason, "{key}");
        }
    }
}
