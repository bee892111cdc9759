use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::locators::require_element;
use super::{
    AnsweredDialog, DialogMembers, EarlyEnd, Element, Interruption, OpenDialog, OperationOutput, OperationResult,
    OperationSpec, Parameters, require_selector,
};
use crate::json_size::weight;
use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Extract {
    /// Each needs a unique name.
    pub extractions: Vec<Extraction>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Extraction {
    pub name: String,
    pub element: Element,
    #[serde(rename = "type")]
    pub take: Take,
    pub transform: Option<Transform>,
    pub attribute: Option<String>,
    /// Sub-fields to read from each match of a list; the match's text if `None`.
    pub extract: Option<Vec<SubExtraction>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubExtraction {
    pub name: String,
    /// Evaluated inside the match, which is `:scope`.
    pub selector: String,
    #[serde(rename = "type")]
    pub take: Take,
    pub attribute: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    Text,
    Attribute,
    List,
    /// CSS pixels of the viewport.
    Box,
    /// Current value of a field, except for a password.
    Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transform {
    Number,
}

impl Parameters for Extract {
    const SPEC: OperationSpec = OperationSpec { route: Some("extract"), ..OperationSpec::READS };

    fn interrupted(&self, by: Interruption) -> Option<OperationResult> {
        Some(EarlyEnd::result(&["value"], &[], by))
    }
}

impl OperationOutput for Extracted {
    fn dialogs_mut(&mut self) -> Option<DialogMembers<'_>> {
        Some((&mut self.dialogs, &mut self.dialog))
    }

    fn weight(&self) -> usize {
        self.value.values().map(weight).sum()
    }
}

impl Extract {
    pub fn parse(extractions: Vec<Extraction>, limits: &Limits) -> Result<Self, Invalid> {
        let max = limits.extractions;
        if !(1..=max).contains(&extractions.len()) {
            // Report only the number of items, because the error list of a very long request would be long, too.
            return Err(Invalid::field("extractions", format!("must have 1 to {max} items")));
        }
        let mut rules = Rules::default();
        let mut names = HashSet::new();
        for (i, item) in extractions.iter().enumerate() {
            let at = |field: &str| format!("extractions.{i}.{field}");
            rules.length(&item.name, 1, limits.extraction_name_chars, &at("name"));
            rules.require(names.insert(item.name.as_str()), &at("name"), "must be unique");
            require_element(&mut rules, &item.element, limits, &format!("extractions.{i}"));
            require_attribute(&mut rules, item.take, item.attribute.as_deref(), limits, &at("attribute"));
            for sub in require_subs(&mut rules, item, limits, &at("extract")) {
                let at = |field: &str| format!("extractions.{i}.extract.{}.{field}", sub.name);
                require_selector(&mut rules, &sub.selector, limits, &at("selector"));
                rules.require(sub.take != Take::List, &at("type"), "must be text, attribute, box or value");
                require_attribute(&mut rules, sub.take, sub.attribute.as_deref(), limits, &at("attribute"));
            }
        }
        rules.check()?;
        Ok(Self { extractions })
    }
}

/// Extracted values
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"value": {"title": "Shoes", "price": 89.9, "links": [{"href": "/sale"}]}}))]
pub struct Extracted {
    /// Values by extraction name; null or an empty array if nothing matched. Values of more than 8 MiB in total and lists of more
    /// than 10,000 matches are not returned: the request fails with 502 `driver-error`, with `bytes` and `limit_bytes`, or
    /// `matches` and `limit_matches`. The session stays ready
    #[schema(value_type = Option<Object>, required = true)]
    pub value: Map<String, Value>,
    /// Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dialogs: Vec<AnsweredDialog>,
    /// Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. `value` is then null
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dialog: Option<OpenDialog>,
}

fn require_attribute(rules: &mut Rules, take: Take, attribute: Option<&str>, limits: &Limits, field: &str) {
    let named = attribute.is_some_and(|name| !name.is_empty());
    rules.require(take != Take::Attribute || named, field, "must name the attribute");
    rules.length(attribute.unwrap_or_default(), 0, limits.extraction_name_chars, field);
}

/// Returns no sub-fields if there are too many or their names are too long: the errors would repeat the names.
fn require_subs<'a>(rules: &mut Rules, item: &'a Extraction, limits: &Limits, field: &str) -> &'a [SubExtraction] {
    let subs = item.extract.as_deref().unwrap_or_default();
    let (max, chars) = (limits.sub_extractions, limits.extraction_name_chars);
    let too_long = subs.iter().any(|sub| sub.name.chars().count() > chars);
    rules.require(subs.len() <= max, field, format!("must have at most {max} members"));
    rules.require(!too_long, field, format!("must have names of at most {chars} characters"));
    if too_long || subs.len() > max { &[] } else { subs }
}
