//! Reading values out of a page.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::locators::require_element;
use super::{Element, OperationOutput, OperationSpec, Parameters, require_selector};
use crate::heavy::weight;
use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

/// `POST /v1/sessions/:id/extract`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Extract {
    /// Each under a name of its own.
    pub extractions: Vec<Extraction>,
}

/// One value to read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Extraction {
    /// Its key in the answer.
    pub name: String,
    /// Of which elements.
    pub element: Element,
    /// What to take.
    #[serde(rename = "type")]
    pub take: Take,
    /// For `text`.
    pub transform: Option<Transform>,
    /// For `attribute`.
    pub attribute: Option<String>,
    /// For `list`: what to take of each match; its text when absent.
    pub extract: Option<Vec<SubExtraction>>,
}

/// One value to read of each match of a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubExtraction {
    /// Its key in the match's object.
    pub name: String,
    /// CSS, inside the match.
    pub selector: String,
    /// Text or attribute.
    #[serde(rename = "type")]
    pub take: Take,
    /// For `attribute`.
    pub attribute: Option<String>,
}

/// What to take of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// Its text, trimmed.
    Text,
    /// A named attribute.
    Attribute,
    /// All matches.
    List,
}

/// What to make of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transform {
    /// Its numeric part.
    Number,
}

impl Parameters for Extract {
    const SPEC: OperationSpec = OperationSpec { route: Some("extract"), ..OperationSpec::READS };
}

impl OperationOutput for Extracted {
    fn weight(&self) -> usize {
        self.value.values().map(weight).sum()
    }
}

impl Extract {
    /// # Errors
    /// On `extractions`, or a field of one of them.
    pub fn parse(extractions: Vec<Extraction>, limits: &Limits) -> Result<Self, Invalid> {
        let max = limits.extractions;
        if !(1..=max).contains(&extractions.len()) {
            // Whoever sends a million is not told what is wrong with each.
            return Err(Invalid::field("extractions", format!("must have 1 to {max} items")));
        }
        let mut rules = Rules::default();
        let mut names = HashSet::new();
        for (i, item) in extractions.iter().enumerate() {
            let at = |field: &str| format!("extractions.{i}.{field}");
            rules.length(&item.name, 1, limits.extraction_name_chars, &at("name"));
            rules.require(names.insert(item.name.as_str()), &at("name"), "must not stand twice");
            require_element(&mut rules, &item.element, limits, &format!("extractions.{i}"));
            require_attribute(&mut rules, item.take, item.attribute.as_deref(), limits, &at("attribute"));
            for sub in require_subs(&mut rules, item, limits, &at("extract")) {
                let at = |field: &str| format!("extractions.{i}.extract.{}.{field}", sub.name);
                require_selector(&mut rules, &sub.selector, limits, &at("selector"));
                rules.require(sub.take != Take::List, &at("type"), "must be text or attribute");
                require_attribute(&mut rules, sub.take, sub.attribute.as_deref(), limits, &at("attribute"));
            }
        }
        rules.check()?;
        Ok(Self { extractions })
    }
}

/// The values that were read
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"value": {"title": "Shoes", "price": 89.9, "links": [{"href": "/sale"}]}}))]
pub struct Extracted {
    /// By extraction name; null or an empty array where nothing matched. Values of more than 8 MiB in all, and lists of more
    /// than 10,000 matches, are withheld: a 502 `driver-error` with `bytes` and `limit_bytes`, or `matches` and
    /// `limit_matches`, that leaves the session ready
    #[schema(value_type = Object)]
    pub value: Map<String, Value>,
}

fn require_attribute(rules: &mut Rules, take: Take, attribute: Option<&str>, limits: &Limits, field: &str) {
    let named = attribute.is_some_and(|name| !name.is_empty());
    rules.require(take != Take::Attribute || named, field, "must name the attribute");
    rules.length(attribute.unwrap_or_default(), 0, limits.extraction_name_chars, field);
}

/// The sub-fields of a list, each of which can be named in an error. There are none when there are too many, or their names
/// are too long: they stand in the answer once a match.
fn require_subs<'a>(rules: &mut Rules, item: &'a Extraction, limits: &Limits, field: &str) -> &'a [SubExtraction] {
    let subs = item.extract.as_deref().unwrap_or_default();
    let (most, chars) = (limits.sub_extractions, limits.extraction_name_chars);
    let too_long = subs.iter().any(|sub| sub.name.chars().count() > chars);
    rules.require(subs.len() <= most, field, format!("must have at most {most} members"));
    rules.require(!too_long, field, format!("must have names of at most {chars} characters"));
    if too_long || subs.len() > most { &[] } else { subs }
}
