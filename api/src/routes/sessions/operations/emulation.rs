//! Changing the emulation of a session, and the members of bodies that set it.

use axum::extract::State;
use kitfleet_types::emulation::{
    Block, ColorScheme, EmulationParams, EmulationState, ExtraHeader, Geolocation, Orientation,
};
use kitfleet_types::ids::SessionId;
use kitfleet_types::operations::{Change, Emulate, Operation};
use kitfleet_types::validation::Invalid;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::{Unchecked, given};
use crate::http::openapi::{Body, Driving, NoSession, Restricted};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::WRITE_SESSIONS;
use crate::routes::sessions::dispatch::{self, Done};

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_SESSIONS, routes!(update))
}

/// Change the emulation of a session
///
/// Changes the members of the body and returns the emulation in force. The current page sees the change without a new load,
/// except for blocked requests and headers of requests that it has already sent. `locale` and `timezone` are fixed for the lifetime
/// of the session. Values of headers are sealed on their way to the browser: they are neither stored in plain text nor returned.
#[utoipa::path(
    patch, path = "/v1/sessions/{id}/emulation", tag = "Sessions", operation_id = "updateSessionEmulation",
    params(IdPath<SessionId>), request_body = EmulationChange,
    responses((status = 200, description = "The emulation in force", body = EmulationState), Restricted, Body, NoSession, Driving),
)]
async fn update(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Unchecked<EmulationChange>,
) -> Result<Done> {
    let operation = body.check(EmulationChange::into_operation)?;
    dispatch::run(&app, &caller, path.id()?, Operation::Emulate(operation)).await
}

/// Header that is added to requests
#[derive(Deserialize, ToSchema)]
#[schema(as = ExtraHeader, example = json!({"name": "X-Preview", "value": "…", "origins": ["https://example.com"]}))]
pub struct ExtraHeaderBody {
    /// Name. `Host`, `Cookie`, `Content-Length` and headers of a single connection are rejected
    #[schema(min_length = 1)]
    name: String,
    /// Value: printable ASCII characters and spaces. It is never returned
    #[schema(format = Password)]
    value: String,
    /// Origins that receive the header, such as `https://example.com`; by default all. Required for `Authorization` and
    /// `Proxy-Authorization`
    #[schema(min_items = 1)]
    origins: Option<Vec<String>>,
}

impl From<ExtraHeaderBody> for ExtraHeader {
    fn from(ExtraHeaderBody { name, value, origins }: ExtraHeaderBody) -> Self {
        Self { name, value, origins }
    }
}

/// Members of a create that set the emulation.
pub fn params(
    (locale, timezone): (Option<String>, Option<String>),
    geolocation: Option<Geolocation>,
    (color_scheme, orientation): (Option<ColorScheme>, Option<Orientation>),
    extra_headers: Option<Vec<ExtraHeaderBody>>,
    (offline, block): (Option<bool>, Option<Block>),
) -> EmulationParams {
    let extra_headers = extra_headers.map(|headers| headers.into_iter().map(ExtraHeader::from).collect());
    EmulationParams { locale, timezone, geolocation, color_scheme, orientation, extra_headers, offline, block }
}

/// Body of a change of the emulation; at least one member is required. An absent member does not change
#[derive(Deserialize, ToSchema)]
#[schema(as = SessionEmulationUpdate, min_properties = 1, example = json!({
    "geolocation": {"latitude": 47.3769, "longitude": 8.5417, "accuracy": 20.0}, "color_scheme": null, "offline": false,
}))]
pub struct EmulationChange {
    /// Position that pages see; null denies them the position
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Geolocation>)]
    geolocation: Option<Nullable<Geolocation>>,
    /// Color scheme that pages see; null for `light`
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<ColorScheme>)]
    color_scheme: Option<Nullable<ColorScheme>>,
    /// Orientation of the device; null for `portrait`
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Orientation>)]
    orientation: Option<Nullable<Orientation>>,
    /// Headers added to requests, at most 4 KiB in all. They replace the earlier ones; null removes all
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<ExtraHeaderBody>>, max_items = 20)]
    extra_headers: Option<Nullable<Vec<ExtraHeaderBody>>>,
    /// True to cut the browser off from the network; null for false
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<bool>)]
    offline: Option<Nullable<bool>>,
    /// Requests that the browser does not send; null for none
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Block>)]
    block: Option<Nullable<Block>>,
}

/// Value of a member; null for the default.
#[derive(Deserialize)]
#[serde(transparent)]
struct Nullable<T>(Option<T>);

impl<T> Nullable<T> {
    fn change(member: Option<Self>) -> Change<T> {
        match member {
            None => Change::Keep,
            Some(Self(None)) => Change::Reset,
            Some(Self(Some(value))) => Change::Set(value),
        }
    }
}

impl EmulationChange {
    /// # Errors
    /// On a member, or on the body if it has none.
    pub fn into_operation(self) -> Result<Emulate, Invalid> {
        let headers = |Nullable(headers): Nullable<Vec<ExtraHeaderBody>>| {
            Nullable(headers.map(|headers| headers.into_iter().map(ExtraHeader::from).collect()))
        };
        let change = Emulate {
            geolocation: Nullable::change(self.geolocation),
            color_scheme: Nullable::change(self.color_scheme),
            orientation: Nullable::change(self.orientation),
            extra_headers: Nullable::change(self.extra_headers.map(headers)),
            offline: Nullable::change(self.offline),
            block: Nullable::change(self.block),
        };
        if change.is_empty() {
            let message =
                "must have at least one of geolocation, color_scheme, orientation, extra_headers, offline and block";
            return Err(Invalid::field("body", message));
        }
        change.parse()
    }
}
