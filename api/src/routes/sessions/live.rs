//! Watching a session's browser (contract: live 24 to 28). Decides which client may connect; frames and input are forwarded
//! without being parsed.

use std::sync::Arc;

use axum::Json as Answer;
use axum::body::Body as NoBody;
use axum::extract::{Request, State};
use axum::http::header::{
    CONNECTION, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kitfleet_domain::agents::lanes::ClientId;
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::audit::Origin;
use kitfleet_domain::live::{self, NewTicket, Role};
use kitfleet_domain::sessions::{self, SessionStatus};
use kitfleet_domain::tokens::Token;
use kitfleet_domain::workers;
use kitfleet_live::PROTOCOL;
use kitfleet_live::link::{self, ConnectError, Greeting, NotAdmitted, Stream};
use kitfleet_types::ids::SessionId;
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};
use tokio::io::copy_bidirectional;
use tokio::sync::OwnedSemaphorePermit;
use url::Url;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::WRITE_SESSIONS;
use super::operations::READ_STATE;
use super::problems::not_ready;
use crate::http::auth::Caller;
use crate::http::client::ClientInfo;
use crate::http::connections::ConnectionSlot;
use crate::http::error::{Problem, Result};
use crate::http::json::Unchecked;
use crate::http::kinds;
use crate::http::openapi::{
    Body, Database, EndedSession, Forbidden, NoSession, Restricted, Unauthorized, Upgrading, Watching, named, one_of,
    or_null,
};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;

/// Prefix of the ticket among the subprotocols that a client offers.
const TICKET: &str = "ticket.";

/// GUID from which the server computes its handshake response (RFC 6455, section 1.3).
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A viewer needs the right to read the state. A controller needs only the right to operate the session.
const WATCH_OR_DRIVE: Rule = READ_STATE.or_scope(Scope::WriteSessions);

pub fn routes() -> Routes {
    Routes::new().merge(Routes::new().allow(WATCH_OR_DRIVE, routes!(issue)).never_stored()).public(routes!(watch))
}

/// Body of a request for a ticket
#[derive(Deserialize, ToSchema)]
#[schema(as = LiveTicketRequest, example = json!({"role": "viewer"}))]
struct TicketBody {
    /// Role of the ticket's holder, `viewer` by default
    #[schema(schema_with = role_or_null)]
    role: Option<Role>,
    /// Name of the controller's client, recorded when it takes over an agent session
    #[schema(min_length = 1, max_length = 128)]
    client_id: Option<String>,
}

fn role_or_null() -> RefOr<Schema> {
    or_null(role())
}

pub(in crate::routes) fn role() -> RefOr<Schema> {
    named("LiveRole", one_of(Role::NAMES, None))
}

/// Ticket for a session's live view
#[derive(Serialize, ToSchema)]
pub struct LiveTicket {
    /// Ticket, valid for one connection. Offer it with the prefix `ticket.` as a WebSocket subprotocol beside `kitfleet.live.v1`
    #[schema(example = "pX2l…")]
    ticket: String,
    /// WebSocket address to connect to
    #[schema(
        format = "uri",
        example = "wss://fleet.example.com/v1/sessions/ses_019abc12-7d3f-7c41-9f0e-5b6a7c8d9e0f/live"
    )]
    url: String,
    /// Page that connects with this ticket
    #[schema(
        format = "uri",
        example = "https://fleet.example.com/live/ses_019abc12-7d3f-7c41-9f0e-5b6a7c8d9e0f#ticket=pX2l…"
    )]
    page_url: String,
    /// Time the ticket expires
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Create a ticket for the live view
///
/// A viewer sees the browser. A controller can also send input while a person has control; it needs `write:sessions` instead.
/// With `write:agents` and a `client_id` a controller can also take over an agent session in the live view and hand it back.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/live-tickets", tag = "Sessions", operation_id = "createLiveTicket",
    params(IdPath<SessionId>), request_body = TicketBody,
    responses((status = 201, description = "The ticket", body = LiveTicket), Restricted, Body, NoSession, EndedSession, Database),
)]
async fn issue(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    from: ClientInfo,
    body: Unchecked<TicketBody>,
) -> Result<(StatusCode, Answer<LiveTicket>)> {
    let (role, client) = body.check(|TicketBody { role, client_id }| {
        Ok((role.unwrap_or_default(), client_id.map(ClientId::parse).transpose()?))
    })?;
    let takes_over = role == Role::Controller && client.is_some() && caller.scopes.satisfy(Scope::WriteAgents);
    match role {
        Role::Viewer => caller.require_scope_of(READ_STATE)?,
        Role::Controller => caller.require_scope_of(WRITE_SESSIONS)?,
    }
    let mut conn = app.db.acquire().await?;
    let found = sessions::find(&mut conn, caller.account_id, path.id()?).await?;
    let session = found.ok_or_else(not_found::<SessionId>)?;
    let new = NewTicket {
        session: session.id,
        role,
        client_id: client.as_ref().map(ClientId::as_str),
        takes_over,
        acting: caller.actor.account().unwrap_or(caller.account_id),
        // A takeover is written to the audit log with this origin.
        origin: if takes_over { from.origin() } else { Origin::default() },
        credential: caller.credential,
        ttl: app.config.live.ticket_ttl,
    };
    let issued = live::issue(&mut conn, &new).await?;
    // The session may have ended since it was read.
    let ended = if session.status == SessionStatus::Errored { session.status } else { SessionStatus::Destroyed };
    let (ticket, expires_at) = issued.ok_or_else(|| not_ready(ended))?;
    Ok((StatusCode::CREATED, Answer(live_ticket(&app, session.id, &ticket, expires_at))))
}

pub(super) fn live_ticket(app: &App, session: SessionId, ticket: &Token, expires_at: Timestamp) -> LiveTicket {
    let (base_url, ticket) = (&app.config.base_url, ticket.reveal().to_owned());
    let url = format!("{}/v1/sessions/{session}/live", base_url.replacen("http", "ws", 1));
    let page_url = format!("{base_url}/live/{session}#ticket={ticket}");
    LiveTicket { ticket, url, page_url, expires_at }
}

/// Watch a session
///
/// Opens a WebSocket. The ticket, offered as a subprotocol, is the only credential. In a browser, only pages of this service and
/// of origins that the deployment allows can open it.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/live", tag = "Sessions", operation_id = "watchSession",
    params(IdPath<SessionId>),
    responses((status = 101, description = "The live view"),
              Upgrading, Unauthorized, Forbidden, NoSession, EndedSession, Watching),
)]
async fn watch(State(app): State<App>, path: IdPath<SessionId>, mut request: Request) -> Result<Response> {
    let upgrade = Upgrade::of(&mut request)?;
    check_origin(&app, request.headers())?;
    let greeting = Greeting { session_id: path.id()?, ticket: ticket_in(request.headers())? };
    // Take the permit before the worker connection, which is slow, so that a burst of requests cannot exceed the limit.
    let view = Arc::clone(&app.views).try_acquire_owned();
    let view = view.map_err(|_| {
        Problem::new(&kinds::CONFLICT, "this API process already serves its maximum number of live views")
    })?;
    let stream = reach(&app, &greeting).await?;
    Ok(upgrade.carry(&app, view, stream))
}

/// Request to upgrade the connection.
struct Upgrade {
    underlying: OnUpgrade,
    accept: HeaderValue,
    /// The connection's entry in the connection limit, if the server counts connections.
    place: Option<Arc<ConnectionSlot>>,
}

impl Upgrade {
    /// RFC 6455, section 4.2.1.
    fn of(request: &mut Request) -> Result<Self> {
        let headers = request.headers();
        let has = |name: HeaderName, word: &str| tokens(headers, name).any(|token| token.eq_ignore_ascii_case(word));
        let is_websocket = has(CONNECTION, "upgrade")
            && has(UPGRADE, "websocket")
            && has(HeaderName::from_static("sec-websocket-version"), "13");
        let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| is_websocket);
        let proof = key.map(|key| Sha1::new().chain_update(key).chain_update(WEBSOCKET_GUID).finalize());
        let accept = proof.and_then(|proof| HeaderValue::try_from(STANDARD.encode(proof)).ok());
        let underlying = request.extensions_mut().remove::<OnUpgrade>();
        let place = request.extensions_mut().remove::<Arc<ConnectionSlot>>();
        accept
            .zip(underlying)
            .map(|(accept, underlying)| Self { underlying, accept, place })
            .ok_or_else(|| Problem::bad_request("this route requires a WebSocket handshake of version 13 (RFC 6455)"))
    }

    /// Accepts the upgrade and copies bytes in both directions until one side closes or the process stops.
    fn carry(self, app: &App, view: OwnedSemaphorePermit, mut stream: Box<dyn Stream>) -> Response {
        let (underlying, stopping, place) = (self.underlying, app.tunnels_cut.clone(), self.place);
        // Begin before the request ends, so that the connection never counts as idle and is not closed for being idle.
        let busy = place.as_ref().map(|place| place.activity.begin());
        app.tunnels.spawn(stopping.run_until_cancelled_owned(async move {
            let (_view, _place, _busy) = (view, place, busy);
            if let Ok(upgraded) = underlying.await {
                // The connection is over, so an error has no recipient.
                let _ = copy_bidirectional(&mut TokioIo::new(upgraded), &mut stream).await;
            }
        }));
        let mut response = Response::new(NoBody::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().extend([
            (CONNECTION, HeaderValue::from_static("upgrade")),
            (UPGRADE, HeaderValue::from_static("websocket")),
            (SEC_WEBSOCKET_ACCEPT, self.accept),
            (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL)),
        ]);
        response
    }
}

/// Rejects pages of other sites, even if they have obtained a ticket.
fn check_origin(app: &App, headers: &HeaderMap) -> Result<()> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let own = Url::parse(&app.config.base_url).ok().map(|url| url.origin().ascii_serialization());
    let mut allowed = own.iter().chain(&app.config.live.origins);
    if allowed.any(|allowed| origin.as_bytes().eq_ignore_ascii_case(allowed.as_bytes())) {
        return Ok(());
    }
    Err(Problem::forbidden("pages of this origin may not open a live view; the deployment allows some by live.origins"))
}

/// Reads the ticket from the offered subprotocols, which must include the live-view protocol.
fn ticket_in(headers: &HeaderMap) -> Result<String> {
    if !tokens(headers, SEC_WEBSOCKET_PROTOCOL).any(|protocol| protocol == PROTOCOL) {
        return Err(Problem::bad_request(format!("offer the subprotocol {PROTOCOL}")));
    }
    let ticket = tokens(headers, SEC_WEBSOCKET_PROTOCOL).find_map(|protocol| protocol.strip_prefix(TICKET));
    ticket
        .map(ToOwned::to_owned)
        .ok_or_else(|| Problem::unauthorized(format!("offer a ticket, as the subprotocol {TICKET}…")))
}

/// Comma-separated tokens of a header.
fn tokens(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Connects a viewer to the session's worker.
async fn reach(app: &App, greeting: &Greeting) -> Result<Box<dyn Stream>> {
    let no_ticket = || Problem::unauthorized("the ticket is not valid for this session: it was used or has expired");
    let mut conn = app.db.acquire().await?;
    let lives = live::ticket_state(&mut conn, greeting.session_id, &greeting.ticket).await?.ok_or_else(no_ticket)?;
    if !lives {
        return Err(not_ready(SessionStatus::Destroyed));
    }
    let nothing = || Problem::new(&kinds::DRIVER_NOT_INTEGRATED, "this session's browser has no live view");
    let end = workers::live_end(&mut conn, greeting.session_id).await?.ok_or_else(nothing)?;
    drop(conn);
    link::connect(&end, greeting).await.map_err(|error| match error {
        ConnectError::NotAdmitted(NotAdmitted::Ticket) => no_ticket(),
        ConnectError::NotAdmitted(NotAdmitted::Full) => Problem::new(&kinds::CONFLICT, NotAdmitted::Full.to_string()),
        ConnectError::NotAdmitted(NotAdmitted::Session) => nothing(),
        ConnectError::NotAdmitted(NotAdmitted::Unavailable) | ConnectError::Unreachable(_) => {
            tracing::warn!(%error, session = %greeting.session_id, "cannot connect a viewer to the worker");
            Problem::new(&kinds::DRIVER_NOT_INTEGRATED, "the session's worker cannot be reached; try again later")
        }
    })
}
