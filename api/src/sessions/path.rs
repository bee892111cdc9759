//! The session in a path.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use kitfleet_domain::ids::SessionId;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, Required, Type};

use crate::error::{Problem, Result};

/// What a path says of its session. Nothing is wrong with a malformed id until somebody looks the session up: it is
/// one more session that does not exist.
pub struct SessionPath(Option<SessionId>);

impl SessionPath {
    /// # Errors
    /// Not found, when the id is malformed.
    pub fn id(&self) -> Result<SessionId> {
        self.0.ok_or_else(Problem::no_such_session)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let params = RawPathParams::from_request_parts(parts, state).await.ok();
        let id = params.and_then(|params| params.iter().find(|(name, _)| *name == "id")?.1.parse().ok());
        if let Some(id) = &id {
            tracing::Span::current().record("session", tracing::field::display(id));
        }
        Ok(Self(id))
    }
}

impl utoipa::IntoParams for SessionPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let schema = ObjectBuilder::new().schema_type(Type::String).build();
        let id = ParameterBuilder::new()
            .name("id")
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some("The session, `ses_<uuid>`"))
            .schema(Some(schema));
        vec![id.build()]
    }
}
