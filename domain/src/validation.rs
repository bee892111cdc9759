//! Input that breaks a rule, told field by field (contract: errors 4).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// A dotted path, such as `action.text`.
    pub field: String,
    /// What the field must be.
    pub message: String,
}

/// Input that breaks at least one rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(|e| format!("{}: {}", e.field, e.message)).collect::<Vec<_>>().join("; "))]
pub struct Invalid(pub Vec<FieldError>);

impl Invalid {
    /// One broken rule.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self(vec![FieldError { field: field.into(), message: message.into() }])
    }
}

/// Where below `at` there is U+0000, which the database stores in no text.
#[must_use]
pub fn nul_in(value: &Value, at: &str) -> Option<String> {
    path_to_nul(value).map(|path| format!("{at}{path}"))
}

/// The path is written from its end, when there is one: names can be long and values many.
fn path_to_nul(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then(String::new),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(i, item)| path_to_nul(item).map(|path| format!(".{i}{path}")))
        }
        Value::Object(members) => members.iter().find_map(|(name, item)| {
            if name.contains('\0') {
                return Some(String::new());
            }
            path_to_nul(item).map(|path| format!(".{name}{path}"))
        }),
        _ => None,
    }
}

/// Collects broken rules, so that a caller hears of all of them at once.
#[derive(Debug, Default)]
pub struct Rules(Vec<FieldError>);

impl Rules {
    /// Notes that `field` breaks a rule unless `holds`.
    pub fn require(&mut self, holds: bool, field: &str, message: impl Into<String>) {
        if !holds {
            self.0.push(FieldError { field: field.to_owned(), message: message.into() });
        }
    }

    /// Notes what another check found.
    pub fn note(&mut self, found: Option<Invalid>) {
        self.0.extend(found.into_iter().flat_map(|invalid| invalid.0));
    }

    /// `text` must have `min` to `max` characters.
    pub fn length(&mut self, text: &str, min: usize, max: usize, field: &str) {
        let characters = text.chars().count();
        let bounds = if min == 0 { format!("at most {max}") } else { format!("{min} to {max}") };
        self.require((min..=max).contains(&characters), field, format!("must have {bounds} characters"));
    }

    /// # Errors
    /// When a rule was broken.
    pub fn check(self) -> Result<(), Invalid> {
        if self.0.is_empty() { Ok(()) } else { Err(Invalid(self.0)) }
    }
}

/// What somebody calls something, spelled in one way. It stands in logs and on pages, so that it holds no control characters.
///
/// # Errors
/// On field `name`, when it does not have 1 to `max` characters or holds one that does not show.
pub fn name(text: &str, max: usize) -> Result<String, Invalid> {
    let name: String = text.trim().nfc().collect();
    let mut rules = Rules::default();
    rules.length(&name, 1, max, "name");
    rules.require(!name.contains(char::is_control), "name", "must not contain control characters");
    rules.check()?;
    Ok(name)
}
