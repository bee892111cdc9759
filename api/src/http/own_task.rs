//! hyper drops a handler's future when the client hangs up. A transaction whose `begin` is dropped midway would return to the
//! pool still open, and later requests would lose their commits in it. A claim whose waiter is gone would never be answered.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::http::client_disconnect::ClientDisconnect;
use crate::http::error::Problem;
use crate::http::state::App;

pub async fn run(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let (disconnect, _guard) = ClientDisconnect::watch();
    request.extensions_mut().insert(disconnect);
    let handler = app.handlers.spawn(next.run(request));
    handler.await.unwrap_or_else(|error| Problem::internal(&error).into_response())
}
