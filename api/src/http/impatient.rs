//! A connection whose client has to take what it is sent.
//!
//! An answer that nobody reads would keep a connection, and itself in memory, for as long as its client likes. A client
//! that reads now and then a byte would as well, so that it is a pace that is asked for, and not a sign of life.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::http::connections::Activity;

/// Bytes that a client has to take in each span of the patience.
const LEAST: usize = 64 * 1024;

pub struct Impatient<S> {
    stream: S,
    patience: Duration,
    activity: Arc<Activity>,
    waiting: Option<Waiting>,
}

/// What was written cannot all be sent at once.
struct Waiting {
    until: Pin<Box<Sleep>>,
    /// Bytes that were taken in this span.
    taken: usize,
}

impl<S> Impatient<S> {
    pub fn new(stream: S, patience: Duration, activity: Arc<Activity>) -> Self {
        Self { stream, patience, activity, waiting: None }
    }

    /// Pending, or the end of patience.
    fn wait<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| {
            self.activity.sending(true);
            Waiting { until: Box::pin(sleep(patience)), taken: 0 }
        });
        loop {
            ready!(waiting.until.as_mut().poll(cx));
            if waiting.taken < LEAST {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            waiting.taken = 0;
            waiting.until.as_mut().reset(Instant::now() + patience);
        }
    }

    fn written(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match (written, &mut self.waiting) {
            (Poll::Pending, _) => self.wait(cx),
            (Poll::Ready(Ok(count)), Some(waiting)) => {
                waiting.taken += count;
                Poll::Ready(Ok(count))
            }
            (written, _) => written,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has written all that it has.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Pending => self.wait(cx),
            flushed @ Poll::Ready(_) => {
                if self.waiting.take().is_some() {
                    self.activity.sending(false);
                }
                flushed
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}
