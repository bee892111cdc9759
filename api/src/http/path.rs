//! Resource IDs in paths.

use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use kitfleet_types::ids::{
    AccountId, AgentSessionId, ApiKeyId, ChallengeId, DeliveryId, DownloadId, IdentityId, IncidentId, InviteId,
    LiveLinkId, MembershipId, OauthClientId, OrderId, PageId, ProfileId, ProxyId, RecipeId, RequeueId, SessionId,
    SnapshotId, StepId, TeamId, TraceLinkId, WebSessionId, WebhookId, WorkerId,
};
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};

use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::openapi::{id_schema, shared};

pub trait Resource: FromStr + Display {
    /// In messages.
    const NAME: &'static str;
    const PREFIX: &'static str;
    /// Of the ID type in the OpenAPI document.
    const IDS: &'static str;
    /// Of the path parameter.
    const PARAMETER: &'static str = "id";
}

macro_rules! resources {
    ($($id:ident: $name:literal;)*) => {$(
        impl Resource for $id {
            const NAME: &'static str = $name;
            const PREFIX: &'static str = $id::PREFIX;
            const IDS: &'static str = stringify!($id);
        }
    )*};
}

resources! {
    SessionId: "session";
    AgentSessionId: "agent session";
    RecipeId: "recipe";
    ProfileId: "profile";
    ProxyId: "saved proxy";
    LiveLinkId: "live link";
    TraceLinkId: "trace link";
    SnapshotId: "profile snapshot";
    WebSessionId: "web session";
    ApiKeyId: "API key";
    OauthClientId: "OAuth client";
    TeamId: "team";
    MembershipId: "membership";
    InviteId: "invitation";
    IdentityId: "sign-in method";
    WebhookId: "webhook endpoint";
    DeliveryId: "webhook delivery";
    RequeueId: "requeue";
    OrderId: "crypto order";
    AccountId: "account";
    WorkerId: "worker";
    IncidentId: "incident";
}

/// A challenge follows its session in the path.
impl Resource for ChallengeId {
    const NAME: &'static str = "challenge";
    const PREFIX: &'static str = Self::PREFIX;
    const IDS: &'static str = "ChallengeId";
    const PARAMETER: &'static str = "challenge_id";
}

/// A page follows its session in the path.
impl Resource for PageId {
    const NAME: &'static str = "page";
    const PREFIX: &'static str = Self::PREFIX;
    const IDS: &'static str = "PageId";
    const PARAMETER: &'static str = "page_id";
}

/// A step follows its agent session in the path.
impl Resource for StepId {
    const NAME: &'static str = "step";
    const PREFIX: &'static str = Self::PREFIX;
    const IDS: &'static str = "StepId";
    const PARAMETER: &'static str = "step_id";
}

/// A download follows its session in the path.
impl Resource for DownloadId {
    const NAME: &'static str = "download";
    const PREFIX: &'static str = Self::PREFIX;
    const IDS: &'static str = "DownloadId";
    const PARAMETER: &'static str = "download_id";
}

/// For an unknown ID, an ID of another account and a malformed ID.
pub fn not_found<T: Resource>() -> Problem {
    Problem::new(&kinds::NOT_FOUND, format!("there is no {} with this id", T::NAME))
}

/// A malformed ID is not an error until it is looked up: it is one more resource that does not exist.
pub struct IdPath<T>(Option<T>);

impl<T: Resource> IdPath<T> {
    pub fn parse(text: &str) -> Self {
        Self(text.parse().ok())
    }
}

impl<T: Resource + Copy> IdPath<T> {
    /// # Errors
    pub fn id(&self) -> Result<T> {
        self.0.ok_or_else(not_found::<T>)
    }
}

impl<S: Send + Sync, T: Resource> FromRequestParts<S> for IdPath<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let params = RawPathParams::from_request_parts(parts, state).await.ok();
        let id: Option<T> =
            params.and_then(|params| params.iter().find(|(name, _)| *name == T::PARAMETER)?.1.parse().ok());
        if let Some(id) = &id {
            // A span records only its declared fields; others are ignored.
            tracing::Span::current().record(T::NAME, tracing::field::display(id));
        }
        Ok(Self(id))
    }
}

impl<T: Resource> utoipa::IntoParams for IdPath<T> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = format!("ID of the {}, `{}_<uuid>`", T::NAME, T::PREFIX);
        let id = ParameterBuilder::new()
            .name(T::PARAMETER)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(description))
            .schema(Some(id_schema(T::PREFIX)));
        vec![shared(T::IDS, id)]
    }
}
