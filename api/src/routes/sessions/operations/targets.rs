//! Element queries in the bodies of operations.

use kitfleet_types::operations::{Element, ROLES, Target, member_of};
use kitfleet_types::validation::Invalid;
use serde::Deserialize;
use utoipa::openapi::schema::OneOf;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::http::openapi::{named, one_of};

/// Element query with exactly one locator.
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
    exact: Option<bool>,
}

/// Element matched by a CSS selector, which must match no other element
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct SelectorTarget {
    #[schema(min_length = 1, max_length = 4_096)]
    selector: String,
}

/// Element with a role
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct RoleTarget {
    /// Explicit role, or the implicit role of the element's type
    #[schema(schema_with = role)]
    role: String,
    /// Part of the accessible name, case-insensitive
    #[schema(min_length = 1, max_length = 1_000)]
    name: Option<String>,
    /// True to match the whole text only, case-sensitive
    #[schema(default = false)]
    exact: Option<bool>,
}

/// Control with a label
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct LabelTarget {
    /// Part of the label, case-insensitive
    #[schema(min_length = 1, max_length = 1_000)]
    label: String,
    /// True to match the whole text only, case-sensitive
    #[schema(default = false)]
    exact: Option<bool>,
}

/// Innermost element with a text
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct TextTarget {
    /// Part of the text, case-insensitive
    #[schema(min_length = 1, max_length = 1_000)]
    text: String,
    /// True to match the whole text only, case-sensitive
    #[schema(default = false)]
    exact: Option<bool>,
}

/// Field with a placeholder
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct PlaceholderTarget {
    /// Part of the placeholder, case-insensitive
    #[schema(min_length = 1, max_length = 1_000)]
    placeholder: String,
    /// True to match the whole text only, case-sensitive
    #[schema(default = false)]
    exact: Option<bool>,
}

/// Element of a snapshot
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a variant of `TargetBody`")]
struct RefTarget {
    /// Element's `ref` in the snapshot
    #[schema(rename = "ref", pattern = "^e[0-9]{1,9}$", example = "e12")]
    reference: String,
}

fn role() -> RefOr<Schema> {
    named("ElementRole", one_of(ROLES, None))
}

/// Schema of `target`, the alternative to `selector`.
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
    // Null counts as absent. It is part of this schema rather than of each field, because many fields use the schema.
    either.items.push(RefOr::T(Schema::Object(ObjectBuilder::new().schema_type(Type::Null).build())));
    RefOr::T(Schema::OneOf(either))
}

/// Element that `selector` or `target` selects; both are members of the field `of`.
///
/// # Errors
/// If neither is given, or more than one locator.
pub fn element(selector: Option<String>, target: Option<TargetBody>, of: &str) -> Result<Element, Invalid> {
    Element::required(selector, element_from_body(target, of)?, of)
}

/// Like [`element`], but both members may be absent.
///
/// # Errors
/// If more than one locator is given.
pub fn element_if_any(
    selector: Option<String>,
    target: Option<TargetBody>,
    of: &str,
) -> Result<Option<Element>, Invalid> {
    Element::chosen(selector, element_from_body(target, of)?, of)
}

fn element_from_body(target: Option<TargetBody>, of: &str) -> Result<Option<Element>, Invalid> {
    let Some(TargetBody { selector, role, name, label, text, placeholder, reference, exact }) = target else {
        return Ok(None);
    };
    if name.is_some() && role.is_none() {
        return Err(Invalid::field(member_of(of, "target.name"), "requires role"));
    }
    let given = [
        selector.map(Target::Selector),
        role.map(|role| Target::Role { role, name }),
        label.map(Target::Label),
        text.map(Target::Text),
        placeholder.map(Target::Placeholder),
        reference.map(Target::Ref),
    ];
    let mut given = given.into_iter().flatten();
    if let (Some(only), None) = (given.next(), given.next()) {
        let is_exact = exact.unwrap_or_default();
        return Ok(Some(if is_exact { Element::Exact(only) } else { Element::Target(only) }));
    }
    let message = "must have exactly one of selector, role, label, text, placeholder and ref";
    Err(Invalid::field(member_of(of, "target"), message))
}
