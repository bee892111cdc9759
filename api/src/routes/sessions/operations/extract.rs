//! Reading values from a page.

use std::collections::BTreeMap;

use axum::extract::State;
use kitfleet_types::ids::SessionId;
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::{Element, Extract, Extracted, Extraction, Operation, SubExtraction, Take, Transform};
use kitfleet_types::validation::{Invalid, Rules, both};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::targets::{self, TargetBody, element};
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::Unchecked;
use crate::http::openapi::{Body, Driving, NoSession, Restricted, named, one_of, or_null};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::WRITE_SESSIONS;
use crate::routes::sessions::dispatch::{self, Done};

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_SESSIONS, routes!(extract))
}

/// Extract values from the page
#[utoipa::path(
    post, path = "/v1/sessions/{id}/extract", tag = "Sessions", operation_id = "extractFromSession",
    params(IdPath<SessionId>), request_body = ExtractBody,
    responses((status = 200, description = "The values", body = Extracted), Restricted, Body, NoSession, Driving),
)]
async fn extract(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Unchecked<ExtractBody>,
) -> Result<Done> {
    let operation = body.check(|body| body.into_operation(&app.config.limits))?;
    dispatch::run(&app, &caller, path.id()?, Operation::Extract(operation)).await
}

/// Body of `extract`
#[derive(Deserialize, ToSchema)]
#[schema(as = Extract, example = json!({"extractions": [
    {"name": "title", "selector": "h1", "type": "text"},
    {"name": "price", "selector": ".price", "type": "text", "transform": "number"},
    {"name": "links", "selector": "nav li", "type": "list",
     "extract": {"href": {"type": "attribute", "selector": "a", "attribute": "href"}}},
]}))]
pub struct ExtractBody {
    /// Values to extract; each needs a unique name
    #[schema(min_items = 1, max_items = 100)]
    extractions: Vec<ExtractionBody>,
}

/// Value to extract
#[derive(Deserialize, ToSchema)]
#[schema(as = Extraction)]
struct ExtractionBody {
    /// Key of the value in the response
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Data to read: the trimmed text, a named attribute, the box or the field's value of the first match, or all matches. A box is
    /// `{x, y, width, height}` in CSS pixels of the viewport. The value of a password field is null
    #[serde(rename = "type")]
    #[schema(schema_with = take)]
    take: Take,
    /// Transformation of a text
    #[schema(schema_with = transform)]
    transform: Option<Transform>,
    /// Attribute name, for `attribute`
    #[schema(max_length = 120)]
    attribute: Option<String>,
    /// Sub-fields to read from each match of a `list`; the match's text if absent. At most 32 sub-fields, with names of at most
    /// 120 characters
    extract: Option<BTreeMap<String, SubExtractionBody>>,
}

/// Value to extract from each match of a list
#[derive(Deserialize, ToSchema)]
#[schema(as = SubExtraction)]
struct SubExtractionBody {
    /// CSS selector, evaluated inside the match. `:scope` is the match itself
    #[schema(min_length = 1, max_length = 4_096)]
    selector: String,
    /// Data to read
    #[serde(rename = "type")]
    #[schema(schema_with = take_of_match)]
    take: Take,
    /// Attribute name, for `attribute`
    #[schema(max_length = 120)]
    attribute: Option<String>,
}

fn take() -> RefOr<Schema> {
    one_of(&["text", "attribute", "list", "box", "value"], None)
}

fn take_of_match() -> RefOr<Schema> {
    one_of(&["text", "attribute", "box", "value"], None)
}

const NUMBER: &str = "Transformation of a text or of each text of a list. `number` keeps the first number, with digits of any script and \
    without group separators. Where a separator can be either, as in `1.234`, the language of the element decides";

fn transform() -> RefOr<Schema> {
    let mut number = one_of(&["number"], None);
    if let RefOr::T(Schema::Object(object)) = &mut number {
        object.description = Some(NUMBER.to_owned());
    }
    or_null(named("ExtractionTransform", number))
}

impl ExtractBody {
    /// # Errors
    /// On `extractions`, or a field of one of them.
    pub fn into_operation(self, limits: &Limits) -> Result<Extract, Invalid> {
        let mut rules = Rules::default();
        // Check at most one extraction above the limit, so that the error list of an oversized request stays short.
        let extractions = self.extractions.into_iter().take(limits.extractions.saturating_add(1)).enumerate();
        let extractions = extractions.map(|(i, body)| body.into_extraction(i, &mut rules)).collect();
        both(rules.check(), Extract::parse(extractions, limits)).map(|((), extract)| extract)
    }
}

impl ExtractionBody {
    fn into_extraction(self, i: usize, rules: &mut Rules) -> Extraction {
        let Self { name, selector, target, take, transform, attribute, extract } = self;
        let element = element(selector, target, &format!("extractions.{i}")).unwrap_or_else(|invalid| {
            rules.note(Some(invalid));
            // Continue with a placeholder, so that errors in the other fields are reported, too.
            Element::from("*".to_owned())
        });
        let extract = extract.map(|fields| {
            let subs = fields.into_iter().map(|(name, sub)| {
                let SubExtractionBody { selector, take, attribute } = sub;
                SubExtraction { name, selector, take, attribute }
            });
            subs.collect()
        });
        Extraction { name, element, take, transform, attribute, extract }
    }
}
