//! Bodies that are tracked to their end. A request's body is read to its end even if no handler reads it. A response's body
//! signals its end, and reserves its bytes until then.
//!
//! If the service responds and closes while the client still sends, the client gets a connection reset and often loses the
//! response. Unread request bodies are therefore drained after the response, within the body timeout.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, EXPECT};
use kitfleet_domain::account_share;
use kitfleet_domain::answer_budget::Reservation;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::http::connections::RequestGuard;

/// A client may continue to send after its body was abandoned, so that it receives the response.
const DISCARD_WITHIN: Duration = Duration::from_secs(1);

/// The request is in progress until the body is written or abandoned.
pub struct WrittenBody<B> {
    body: B,
    _under_way: RequestGuard,
}

impl<B> WrittenBody<B> {
    pub fn of(body: B, under_way: RequestGuard) -> Self {
        Self { body, _under_way: under_way }
    }
}

impl<B: Body + Unpin> Body for WrittenBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Passed to the connection at once.
const PIECE: usize = 64 * 1024;

/// Holds its reservation until its last piece is passed to the connection.
pub struct CountedBody {
    rest: Bytes,
    _reservation: Reservation,
}

impl CountedBody {
    pub fn of(body: impl Into<Bytes>, reservation: Reservation) -> Self {
        Self { rest: body.into(), _reservation: reservation }
    }
}

/// Counts as a large response.
pub fn counted_json(text: Vec<u8>, reservation: Reservation) -> Response {
    ([(CONTENT_TYPE, "application/json")], CountedBody::of(text, reservation)).into_response()
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

impl IntoResponse for CountedBody {
    fn into_response(self) -> Response {
        Response::new(axum::body::Body::new(self))
    }
}

/// Drained until the process ends.
pub struct DrainedBody {
    incoming: Option<Incoming>,
    /// The client waits for a `100 Continue`; such a body needs no draining until it is polled.
    held_back: bool,
    timeout: Duration,
    /// Cancelled when the process stops draining.
    given_up: CancellationToken,
    until_given_up: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

#[derive(Debug, thiserror::Error)]
pub enum BodyAborted {
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    #[error("the service is stopping")]
    Stopping,
}

pub fn is_of_stopping(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(BodyAborted::Stopping)) || error.source().is_some_and(is_of_stopping)
}

impl DrainedBody {
    pub fn of(
        request: hyper::Request<Incoming>,
        timeout: Duration,
        given_up: &CancellationToken,
    ) -> hyper::Request<Self> {
        let held_back = request.headers().contains_key(EXPECT);
        let given_up = given_up.clone();
        request.map(|incoming| Self { incoming: Some(incoming), held_back, timeout, given_up, until_given_up: None })
    }

    fn poll_given_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let given_up = &self.given_up;
        self.until_given_up.get_or_insert_with(|| Box::pin(given_up.clone().cancelled_owned())).as_mut().poll(cx)
    }
}

impl Body for DrainedBody {
    type Data = Bytes;
    type Error = BodyAborted;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyAborted>>> {
        self.held_back = false;
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        match Pin::new(incoming).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(BodyAborted::from))),
            Poll::Pending => {
                account_share::release();
                self.poll_given_up(cx).map(|()| Some(Err(BodyAborted::Stopping)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take()
            && !incoming.is_end_stream()
            && !self.held_back
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let timeout = if self.given_up.is_cancelled() { DISCARD_WITHIN } else { self.timeout };
            runtime.spawn(tokio::time::timeout(timeout, drain(incoming)));
        }
    }
}

async fn drain(mut incoming: Incoming) {
    while let Some(Ok(_)) = incoming.frame().await {}
}
