//! Machines that show agent sessions by video (contract: livekit 1 to 3).

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use kitfleet_domain::livekit::{self, NewMacNode};
use kitfleet_types::ids::MacNodeId;
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::auth::staff::Staff;
use crate::http::error::{Problem, Result};
use crate::http::json::Unchecked;
use crate::http::metrics::{self, RegisterOutcome};
use crate::http::openapi::{Body, Sealing, Unauthorized};
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new().for_staff(routes!(register)).on_refusal(count_refusal)
}

/// Counts callers that are not staff, for which the route returns 404.
fn count_refusal(_: &Uri, status: StatusCode) {
    if status == StatusCode::NOT_FOUND {
        metrics::count_registration(RegisterOutcome::NotFound);
    }
}

/// Body of a registration. It does not implement `Debug`, so that the secret cannot reach a log.
#[derive(Deserialize, ToSchema)]
#[schema(as = MacNodeRegistration, example = json!({
    "name": "mac-1", "livekit_url": "wss://mac-1.example.com", "api_key": "APInode", "api_secret": "a-secret", "capacity": 8,
}))]
struct RegisterBody {
    /// Name of the machine. Registering a name again replaces the other fields
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    /// Address of the machine's LiveKit server, `wss://…`
    #[schema(max_length = 2048)]
    livekit_url: String,
    /// API key of that server, with which tokens are signed
    #[schema(min_length = 1, max_length = 255)]
    api_key: String,
    /// Secret of the API key
    #[schema(min_length = 1, max_length = 1024)]
    api_secret: String,
    /// Maximum number of rooms at a time; unlimited by default
    #[schema(minimum = 1, maximum = 10000)]
    capacity: Option<i32>,
}

/// Machine that shows agent sessions by video
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "mac_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "name": "mac-1", "livekit_url": "wss://mac-1.example.com",
    "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct MacNode {
    /// Machine ID
    #[schema(value_type = String)]
    id: MacNodeId,
    /// Name of the machine
    name: String,
    /// Address of the machine's LiveKit server
    livekit_url: String,
    /// Time the machine was registered
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl RegisterBody {
    fn new_node(&self) -> NewMacNode<'_> {
        NewMacNode {
            name: &self.name,
            livekit_url: &self.livekit_url,
            api_key: &self.api_key,
            api_secret: &self.api_secret,
            capacity: self.capacity,
        }
    }
}

/// Register a video machine
///
/// Registering a name again replaces the machine's settings and returns 200.
#[utoipa::path(
    post, path = "/v1/mac-nodes/register", tag = "Staff", operation_id = "registerMacNode", request_body = RegisterBody,
    responses((status = 200, description = "The machine's settings were replaced", body = MacNode),
              (status = 201, description = "The machine is registered", body = MacNode),
              Unauthorized, Body, Sealing),
)]
async fn register(
    staff: Staff,
    State(app): State<App>,
    body: Result<Unchecked<RegisterBody>>,
) -> Result<(StatusCode, Answer<MacNode>)> {
    let outcome = |outcome| move |_: &Problem| metrics::count_registration(outcome);
    let body = body.and_then(|body| Ok(body.check(|body| body.new_node().check().map(drop).map(|()| body))?));
    let body = body.inspect_err(outcome(RegisterOutcome::Validation))?;
    let checked = body.new_node().check()?;
    let vault = app.own_vault("machines for video").inspect_err(outcome(RegisterOutcome::EncryptionError))?;
    let stored = async { livekit::register(&mut *app.db.acquire().await?, &checked, vault).await }.await;
    let (node, is_new) = stored.map_err(Problem::from).inspect_err(outcome(RegisterOutcome::Unknown))?;
    metrics::count_registration(RegisterOutcome::Ok);
    tracing::info!(staff = %staff.credential, node = %node.id, name = node.name, is_new, "video machine registered");
    let livekit::MacNode { id, name, livekit_url, created_at } = node;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Answer(MacNode { id, name, livekit_url, created_at })))
}
