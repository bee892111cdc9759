//! The sessions on this worker. Each session has an actor, which owns the browser, runs one command at a time, monitors the
//! idle browser, and ends with it.
//!
//! A session holds a lease on its profile from before its browser opens until the profile is saved. The profile is saved when
//! an actor must close a live browser, after all callers that waited for the session's end have their responses. The profile of
//! an errored session is not saved.

pub(crate) mod actor;
pub(crate) mod outcomes;
pub(crate) mod registry;
mod watch;

use std::sync::Arc;

use kitfleet_domain::sessions::intents::{Request, StartedIntent};
use kitfleet_domain::trace_parent::TraceParent;
use kitfleet_jobs::operations::OperationJob;
use kitfleet_jobs::traces;
use kitfleet_types::ids::{IntentId, SessionId};
use kitfleet_types::operations::FailureClass;
use tracing::field::Empty;

use self::outcomes::{failed, finish};
use self::registry::Order;
use crate::Context;

pub(crate) async fn carry_out(OperationJob { intent, started }: OperationJob, context: Arc<Context>) {
    match started {
        Ok(StartedIntent { session, request: Request::Open(wanted), sealed, request_id, trace_parent, .. }) => {
            let span = span(session, intent, "open", &request_id, trace_parent);
            actor::open(&context, intent, session, (wanted, sealed), span);
        }
        Ok(StartedIntent {
            session,
            request: Request::Operate(operation),
            sealed,
            request_id,
            trace_parent,
            actor,
        }) => {
            let span = span(session, intent, operation.spec().kind, &request_id, trace_parent);
            operate(&context, session, Order { intent, operation, actor, span }, sealed.as_deref()).await;
        }
        Err(error) => {
            tracing::error!(%error, %intent, "cannot start an operation");
            let detail = match error {
                sqlx::Error::Decode(error) => format!("the operation cannot be read: {error}"),
                _ => "the operation cannot be started".to_owned(),
            };
            finish(&context, intent, &failed(FailureClass::Unknown, &detail).into()).await;
        }
    }
}

async fn operate(context: &Context, session: SessionId, mut order: Order, sealed: Option<&[u8]>) {
    let intent = order.intent;
    if let Some(sealed) = sealed {
        match context.opener.open(sealed) {
            Ok(secrets) => order.operation.restore_secrets(secrets),
            Err(error) => {
                finish(context, intent, &failed(FailureClass::Driver, &error.to_string()).into()).await;
                return;
            }
        }
    }
    let undelivered = match context.sessions.get(session) {
        // The session's claim admits one operation at a time, so the actor is idle or about to be.
        Some(handle) => handle.orders.send(order).await.is_err(),
        None => true,
    };
    if undelivered {
        finish(context, intent, &failed(FailureClass::Driver, "the session's browser is gone").into()).await;
    }
}

fn span(
    session: SessionId,
    intent: IntentId,
    operation: &str,
    request_id: &str,
    parent: Option<TraceParent>,
) -> tracing::Span {
    let span = tracing::info_span!("session", %session, %intent, operation, request_id, trace_id = Empty);
    traces::follow(&span, parent);
    span
}
