//! Validation errors, listed by field (contract: errors 4).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// Path of the field with dots, such as `action.text`.
    pub field: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(|e| format!("{}: {}", e.field, e.message)).collect::<Vec<_>>().join("; "))]
pub struct Invalid(pub Vec<FieldError>);

impl Invalid {
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self(vec![FieldError { field: field.into(), message: message.into() }])
    }

    /// The other check is about other fields.
    #[must_use]
    pub fn and<T>(mut self, other: Result<T, Self>) -> Self {
        let known = self.0.len();
        let more = other.err().into_iter().flat_map(|Self(errors)| errors);
        for error in more {
            if self.0[..known].iter().all(|one| one.field != error.field) {
                self.0.push(error);
            }
        }
        self
    }
}

/// The results, or the errors of both.
pub fn both<A, B>(a: Result<A, Invalid>, b: Result<B, Invalid>) -> Result<(A, B), Invalid> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(invalid), b) => Err(invalid.and(b)),
        (Ok(_), Err(invalid)) => Err(invalid),
    }
}

/// The database cannot store U+0000 in a text.
#[must_use]
pub fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(members) => members.iter().any(|(name, item)| name.contains('\0') || has_nul(item)),
        _ => false,
    }
}

/// Names sent by a customer can be as long as the body.
const MAX_NAME_CHARS: usize = 256;

#[must_use]
pub fn join_path(parent: &str, child: &str) -> String {
    let child = child.char_indices().nth(MAX_NAME_CHARS).map_or(child, |(end, _)| &child[..end]);
    match (parent, child) {
        ("", only) | (only, "") => only.to_owned(),
        _ => format!("{parent}.{child}"),
    }
}

/// Adds at most `max` paths in total.
pub fn find_nuls(value: &Value, at: &str, max: usize, found: &mut Vec<String>) {
    if found.len() >= max || !has_nul(value) {
        return;
    }
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate().filter(|(_, item)| has_nul(item)) {
                find_nuls(item, &join_path(at, &i.to_string()), max, found);
            }
        }
        Value::Object(members) if !members.keys().any(|name| name.contains('\0')) => {
            for (name, item) in members.iter().filter(|(_, item)| has_nul(item)) {
                find_nuls(item, &join_path(at, name), max, found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

/// The caller receives all errors at once.
#[derive(Debug, Default)]
pub struct Rules(Vec<FieldError>);

impl Rules {
    /// Adds an error unless `holds`.
    pub fn require(&mut self, holds: bool, field: &str, message: impl Into<String>) {
        if !holds {
            self.0.push(FieldError { field: field.to_owned(), message: message.into() });
        }
    }

    pub fn note(&mut self, found: Option<Invalid>) {
        self.0.extend(found.into_iter().flat_map(|invalid| invalid.0));
    }

    pub fn length(&mut self, text: &str, min: usize, max: usize, field: &str) {
        let characters = text.chars().count();
        let bounds = if min == 0 { format!("at most {max}") } else { format!("{min} to {max}") };
        self.require((min..=max).contains(&characters), field, format!("must have {bounds} characters"));
    }

    pub fn check(self) -> Result<(), Invalid> {
        if self.0.is_empty() { Ok(()) } else { Err(Invalid(self.0)) }
    }
}

/// Logs and pages show names, so a name contains no control characters.
pub fn name(text: &str, max: usize) -> Result<String, Invalid> {
    let name: String = text.trim().nfc().collect();
    let mut rules = Rules::default();
    rules.length(&name, 1, max, "name");
    rules.require(!name.contains(char::is_control), "name", "must not contain control characters");
    rules.check()?;
    Ok(name)
}
