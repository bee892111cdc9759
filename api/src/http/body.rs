//! Bodies that see to their end: a request's is read to it even when no handler wants it, and an answer's tells when it is
//! written.
//!
//! A client that is still sending when we answer and close gets a connection reset, and often never sees the answer. So
//! what a handler leaves unread is read and thrown away behind the answer, for as long as a body may take anyway.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::EXPECT;

use crate::http::connections::UnderWay;

/// An answer's body: its request is under way until this has been written, or given up.
pub struct WrittenBody<B> {
    body: B,
    _under_way: UnderWay,
}

impl<B> WrittenBody<B> {
    pub fn of(body: B, under_way: UnderWay) -> Self {
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

pub struct DrainedBody {
    incoming: Option<Incoming>,
    /// Its sender waits until we ask for it: as long as nobody does, not wanting it is enough.
    held_back: bool,
    timeout: Duration,
}

impl DrainedBody {
    pub fn of(request: hyper::Request<Incoming>, timeout: Duration) -> hyper::Request<Self> {
        let held_back = request.headers().contains_key(EXPECT);
        request.map(|incoming| Self { incoming: Some(incoming), held_back, timeout })
    }
}

impl Body for DrainedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        self.held_back = false;
        match &mut self.incoming {
            Some(incoming) => Pin::new(incoming).poll_frame(cx),
            None => Poll::Ready(None),
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
            runtime.spawn(tokio::time::timeout(self.timeout, drain(incoming)));
        }
    }
}

async fn drain(mut incoming: Incoming) {
    while let Some(Ok(_)) = incoming.frame().await {}
}
