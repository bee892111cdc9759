//! Lists (contract: lists): parameters and responses.

use std::borrow::Cow;
use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_types::limits::Limits;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, both};
use serde::de::IntoDeserializer;
use serde::de::value::{Error as MalformedTime, StrDeserializer};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{ArrayBuilder, KnownFormat, ObjectBuilder, Ref, RefOr, Schema, SchemaFormat, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use uuid::Uuid;

use crate::http::error::Result;
use crate::http::openapi::{query, shared};
use crate::http::state::App;

pub struct Query(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.uri))
    }
}

impl Query {
    pub fn of(uri: &Uri) -> Self {
        let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// A repeated parameter is an error, because the intended value is unknown, and so is U+0000, which the database cannot
    /// compare.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Invalid> {
        let mut given = self.0.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str());
        let Some(value) = given.next() else { return Ok(None) };
        if given.next().is_some() {
            return Err(Invalid::field(name, "must not be given more than once"));
        }
        if value.contains('\0') {
            return Err(Invalid::field(name, "must not contain the character U+0000"));
        }
        Ok(Some(value))
    }

    /// As [`Query::text`], then with `parse`.
    pub fn parsed<T>(&self, name: &str, parse: impl FnOnce(&str) -> Result<T, Invalid>) -> Result<Option<T>, Invalid> {
        self.text(name)?.map(parse).transpose()
    }

    /// Or all errors in the filters and in the page parameters (contract: errors 4).
    pub fn filters<T>(&self, filters: Result<T, Invalid>, limits: &Limits) -> Result<T, Invalid> {
        filters.map_err(|invalid| invalid.and(self.limit(limits)).and(self.text("cursor")))
    }

    /// An ID of the type's prefix.
    pub fn id<T: FromStr>(&self, name: &str) -> Result<Option<T>, Invalid> {
        self.parsed(name, |text| text.parse().map_err(|_| Invalid::field(name, "must be an ID of this type")))
    }

    /// Time in the format of RFC 3339.
    pub fn time(&self, name: &str) -> Result<Option<Timestamp>, Invalid> {
        self.parsed(name, |text| {
            let text: StrDeserializer<'_, MalformedTime> = text.into_deserializer();
            Timestamp::deserialize(text).map_err(|error| Invalid::field(name, error.to_string()))
        })
    }

    pub fn limit(&self, limits: &Limits) -> Result<u32, Invalid> {
        self.number("limit", limits.page_default, limits.page_max)
    }

    /// From 1 to `max`.
    pub fn number(&self, name: &str, default: u32, max: u32) -> Result<u32, Invalid> {
        let Some(text) = self.text(name)? else { return Ok(default) };
        let number = text.parse().ok().filter(|number| (1..=max).contains(number));
        number.ok_or_else(|| Invalid::field(name, Cow::from(format!("must be 1 to {max}"))))
    }
}

/// For the OpenAPI document.
pub struct Paging;

impl IntoParams for Paging {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let number =
            ObjectBuilder::new().schema_type(Type::Integer).format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)));
        let limit = RefOr::T(Schema::Object(number.minimum(Some(1)).maximum(Some(100)).build()));
        let cursor = RefOr::T(Schema::Object(ObjectBuilder::new().schema_type(Type::String).build()));
        vec![
            shared("Limit", query("limit", "Maximum number of entries on the page; default 50", limit)),
            shared(
                "Cursor",
                query("cursor", "`next_cursor` of the previous page; the filters must be the same", cursor),
            ),
        ]
    }
}

/// Bounds of a list by time, for the OpenAPI document.
pub struct CreatedWithin;

impl IntoParams for CreatedWithin {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let moment = || {
            let format = Some(SchemaFormat::KnownFormat(KnownFormat::DateTime));
            RefOr::T(Schema::Object(ObjectBuilder::new().schema_type(Type::String).format(format).build()))
        };
        vec![
            shared("CreatedAfter", query("created_after", "Only entries created at this time or later", moment())),
            shared("CreatedBefore", query("created_before", "Only entries created before this time", moment())),
        ]
    }
}

pub trait ListItem: ToSchema {
    /// Of the list, or of a page of it, in the OpenAPI document.
    const LIST: &'static str;
    const MEANING: &'static str;
    /// Set if the description of the list is not sufficient.
    const ENTRIES: Option<&'static str> = None;
}

#[derive(Serialize)]
pub struct List<T> {
    data: Vec<T>,
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        Self { data: entries.into_iter().collect() }
    }
}

#[derive(Serialize)]
pub struct Page<T> {
    pub data: Vec<T>,
    has_more: bool,
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    pub fn new(data: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { data, has_more: next_cursor.is_some(), next_cursor }
    }

    pub fn map<U>(self, entry: impl FnMut(T) -> U) -> Page<U> {
        let Self { data, has_more, next_cursor } = self;
        Page { data: data.into_iter().map(entry).collect(), has_more, next_cursor }
    }
}

impl<T> FromIterator<T> for Page<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        Self::new(entries.into_iter().collect(), None)
    }
}

impl<T: ListItem> PartialSchema for List<T> {
    fn schema() -> RefOr<Schema> {
        entries::<T>().into()
    }
}

impl<T: ListItem> PartialSchema for Page<T> {
    fn schema() -> RefOr<Schema> {
        let has_more =
            ObjectBuilder::new().schema_type(Type::Boolean).description(Some("True when there is another page"));
        let next_cursor = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some("Cursor of the next page; null on the last page"));
        let page = entries::<T>().property("has_more", has_more).required("has_more");
        page.property("next_cursor", next_cursor).required("next_cursor").into()
    }
}

fn entries<T: ListItem>() -> ObjectBuilder {
    let data = ArrayBuilder::new().items(Ref::from_schema_name(T::name())).description(T::ENTRIES);
    ObjectBuilder::new().description(Some(T::MEANING)).property("data", data).required("data")
}

macro_rules! named_by_their_entries {
    ($($envelope:ident)*) => {$(
        impl<T: ListItem> ToSchema for $envelope<T> {
            fn name() -> Cow<'static, str> {
                T::LIST.into()
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                schemas.push((T::name().into_owned(), T::schema()));
                T::schemas(schemas);
            }
        }
    )*};
}

named_by_their_entries!(List Page);

/// `fetch` returns up to a number of entries after the one with an ID.
pub async fn page<T>(
    app: &App,
    query: &Query,
    scope: CursorScope<'_>,
    id_of: impl Fn(&T) -> Uuid,
    fetch: impl AsyncFnOnce(&mut PgConnection, Option<Uuid>, i64) -> sqlx::Result<Vec<T>>,
) -> Result<Page<T>> {
    page_within_bytes(app, query, scope, id_of, |_| 0, fetch).await
}

/// Entries may be large: the page ends with the entry that brings it to `limits.page_bytes`.
pub async fn page_within_bytes<T>(
    app: &App,
    query: &Query,
    scope: CursorScope<'_>,
    id_of: impl Fn(&T) -> Uuid,
    bytes_of: impl Fn(&T) -> usize,
    fetch: impl AsyncFnOnce(&mut PgConnection, Option<Uuid>, i64) -> sqlx::Result<Vec<T>>,
) -> Result<Page<T>> {
    let after = match query.text("cursor") {
        Ok(Some(cursor)) => app.cursors().await?.read(scope, cursor).map(Some),
        Ok(None) => Ok(None),
        Err(invalid) => Err(invalid),
    };
    let (limit, after) = both(query.limit(&app.config.limits), after)?;
    let mut conn = app.db.acquire().await?;
    // One additional entry shows whether there is another page.
    let mut data = fetch(&mut conn, after, i64::from(limit) + 1).await?;
    drop(conn);
    let fitting = count_within_bytes(&data, app.config.limits.page_bytes, bytes_of).min(limit as usize);
    let has_more = data.len() > fitting;
    data.truncate(fitting);
    let next_cursor = match data.last() {
        Some(last) if has_more => Some(app.cursors().await?.sign(scope, id_of(last))),
        _ => None,
    };
    Ok(Page { data, has_more, next_cursor })
}

/// The last one brings the size to `max` bytes.
fn count_within_bytes<T>(data: &[T], max: usize, bytes_of: impl Fn(&T) -> usize) -> usize {
    let mut bytes = 0_usize;
    let heavy = data.iter().position(|entry| {
        bytes = bytes.saturating_add(bytes_of(entry));
        bytes >= max
    });
    heavy.map_or(data.len(), |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_ends_with_the_entry_that_fills_it() {
        let entries = |max| count_within_bytes(&[3, 0, 4, 5], max, |bytes| *bytes);
        assert_eq!([1, 3, 4, 7, 8, 12, 13].map(entries), [1, 1, 3, 3, 4, 4, 4]);
        assert_eq!(count_within_bytes(&[] as &[usize], 1, |bytes| *bytes), 0);
    }

    #[test]
    fn limit_is_a_number_within_bounds() {
        let limit = |text: &str| Query(vec![("limit".to_owned(), text.to_owned())]).limit(&Limits::default()).ok();
        assert_eq!(limit("1"), Some(1));
        assert_eq!(limit("100"), Some(100));
        for bad in ["0", "101", "-1", "1.0", "x", "", "99999999999"] {
            assert_eq!(limit(bad), None, "{bad}");
        }
        assert_eq!(Query(Vec::new()).limit(&Limits::default()), Ok(50));
    }
}
