//! How bodies of operations say which element is meant.

use kitfleet_domain::operations::{Element, ROLES, Target};
use kitfleet_domain::validation::Invalid;
use serde::Deserialize;
use utoipa::openapi::schema::OneOf;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::openapi::{named, one_of, or_null};

/// What an element is told by: one of them, whichever it is.
#[derive(Debug, Default, Deserialize)]
pub struct TargetBody {
    selector: Option<String>,
    role: Option<String>,
    name: Option<String>,
    label: Option<String>,
    text: Option<String>,
    placeholder: Option<String>,
    #[serde(rename = "ref")]
    reference: Option<String>,
}

/// The only element that a CSS selector means
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct SelectorTarget {
    #[schema(min_length = 1, max_length = 4_096)]
    selector: String,
}

/// An element of a role
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct RoleTarget {
    /// Explicit, or that of its kind of element
    #[schema(schema_with = role)]
    role: String,
    /// A part of its accessible name, in whatever case
    #[schema(min_length = 1, max_length = 1_000)]
    name: Option<String>,
}

/// A control that is labelled so
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct LabelTarget {
    /// A part of its label, in whatever case
    #[schema(min_length = 1, max_length = 1_000)]
    label: String,
}

/// The innermost element that says so
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct TextTarget {
    /// A part of its text, in whatever case
    #[schema(min_length = 1, max_length = 1_000)]
    text: String,
}

/// A field that has this placeholder
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct PlaceholderTarget {
    /// A part of it, in whatever case
    #[schema(min_length = 1, max_length = 1_000)]
    placeholder: String,
}

/// An element of a snapshot
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct RefTarget {
    /// As the snapshot calls it
    #[schema(rename = "ref", pattern = "^e[0-9]{1,9}$", example = "e12")]
    reference: String,
}

fn role() -> RefOr<Schema> {
    named("ElementRole", one_of(ROLES, None))
}

/// `target`, where `selector` may stand instead.
pub fn target() -> RefOr<Schema> {
    let variants = [
        ("SelectorTarget", SelectorTarget::schema()),
        ("RoleTarget", RoleTarget::schema()),
        ("LabelTarget", LabelTarget::schema()),
        ("TextTarget", TextTarget::schema()),
        ("PlaceholderTarget", PlaceholderTarget::schema()),
        ("RefTarget", RefTarget::schema()),
    ];
    let mut either = OneOf::new();
    either.title = Some("Target".to_owned());
    either.items = variants.map(|(name, schema)| named(name, schema)).into();
    or_null(RefOr::T(Schema::OneOf(either)))
}

/// What a body's `selector` and `target` say, which are members of the field `of`.
///
/// # Errors
/// When they say nothing, or more than one thing.
pub fn element(selector: Option<String>, target: Option<TargetBody>, of: &str) -> Result<Element, Invalid> {
    Element::required(selector, told_by(target, of)?, of)
}

/// The same where both may be absent.
///
/// # Errors
/// When they say more than one thing.
pub fn element_if_any(
    selector: Option<String>,
    target: Option<TargetBody>,
    of: &str,
) -> Result<Option<Element>, Invalid> {
    Element::chosen(selector, told_by(target, of)?, of)
}

fn told_by(target: Option<TargetBody>, of: &str) -> Result<Option<Target>, Invalid> {
    let Some(TargetBody { selector, role, name, label, text, placeholder, reference }) = target else {
        return Ok(None);
    };
    if name.is_some() && role.is_none() {
        return Err(Invalid::field(format!("{of}.target.name"), "must stand beside role"));
    }
    let told = [
        selector.map(Target::Selector),
        role.map(|role| Target::Role { role, name }),
        label.map(Target::Label),
        text.map(Target::Text),
        placeholder.map(Target::Placeholder),
        reference.map(Target::Ref),
    ];
    let mut told = told.into_iter().flatten();
    match (told.next(), told.next()) {
        (Some(only), None) => Ok(Some(only)),
        _ => {
            let message = "must have exactly one of selector, role, label, text, placeholder and ref";
            Err(Invalid::field(format!("{of}.target"), message))
        }
    }
}
