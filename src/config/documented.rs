//! Tests that `docs/configuration.md` matches the settings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Config;
use super::providers::{Issuer, Provider, ProviderName};

const PAGE: &str = include_str!("../../docs/configuration.md");
/// They depend on the machine.
const DERIVED: [&str; 4] = ["server.max_connections", "worker.host_program", "worker.max_sessions", "worker.name"];
/// Key prefix of a provider on the page.
const SOME_PROVIDER: &str = "auth.providers.<name>.";

struct Row {
    key: &'static str,
    kind: &'static str,
    default: &'static str,
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for line in PAGE.lines() {
        let Some(key) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()) else { continue };
        let [_, _, kind, default, meaning, _] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{line:?} does not have four cells")
        };
        assert!(!meaning.is_empty(), "{key} has no description");
        rows.push(Row { key, kind, default });
    }
    rows
}

/// The keys of a provider have example values, because there is no provider by default.
fn settings() -> BTreeMap<String, Value> {
    let mut config = Config::default();
    let name = ProviderName::try_from("idp".to_owned()).expect("a name");
    let provider = Provider {
        issuer: Issuer::try_from("https://idp.example".to_owned()).expect("an issuer"),
        client_id: "kitfleet".to_owned(),
        client_secret: serde_json::from_value("secret".into()).expect("a secret"),
        scopes: Vec::new(),
        display_name: Some("Work".to_owned()),
    };
    config.auth.providers.insert(name, provider);
    let mut settings = BTreeMap::new();
    gather("", &serde_json::to_value(config).expect("JSON"), &mut settings);
    settings.into_iter().map(|(key, default)| (key.replace("auth.providers.idp.", SOME_PROVIDER), default)).collect()
}

fn gather(prefix: &str, value: &Value, settings: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            gather(&key, member, settings);
        }),
        other => {
            settings.insert(prefix.to_owned(), other.clone());
        }
    }
}

#[test]
fn every_setting_has_one_line_in_configuration_md() {
    let rows = rows();
    let documented: BTreeSet<_> = rows.iter().map(|row| row.key.to_owned()).collect();
    assert_eq!(documented.len(), rows.len(), "a setting has two lines");
    assert_eq!(documented, settings().into_keys().collect());
}

#[test]
fn configuration_md_has_the_defaults() {
    let settings = settings();
    for Row { key, kind, default, .. } in rows() {
        let value = &settings[key];
        if DERIVED.contains(&key) || key.starts_with(SOME_PROVIDER) {
            continue;
        }
        if value.is_null() {
            assert!(default.starts_with("none"), "{key} has no default, and not {default}");
            continue;
        }
        let documented_default = default.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).unwrap_or(default);
        let same = value.as_str().map_or_else(
            || serde_json::from_str(documented_default).ok().as_ref() == Some(value),
            |text| text == documented_default,
        );
        assert!(same, "the default of {key} is {value} and not {default}");
        let expected = match value {
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::Array(_) => "list of ",
            Value::String(text) if humantime::parse_duration(text).is_ok() => "duration",
            _ => "",
        };
        assert!(kind.starts_with(expected), "{key} is a {expected} and not a {kind}");
    }
}
