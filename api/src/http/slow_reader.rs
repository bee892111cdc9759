//! A connection whose client must read at a minimum rate. An unread response would hold a connection and memory for as long as
//! the client likes, so the client must read at a minimum rate. A byte now and then is not enough.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::http::connections::Activity;

/// Bytes the client must read in each period.
const MIN_BYTES: usize = 64 * 1024;

pub struct SlowReaderGuard<S> {
    stream: S,
    patience: Duration,
    activity: Arc<Activity>,
    waiting: Option<BlockedWrite>,
}

struct BlockedWrite {
    until: Pin<Box<Sleep>>,
    /// Bytes the client read in this period.
    taken: usize,
}

impl<S> SlowReaderGuard<S> {
    pub fn new(stream: S, patience: Duration, activity: Arc<Activity>) -> Self {
        Self { stream, patience, activity, waiting: None }
    }

    /// An error after the timeout.
    fn wait<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| {
            self.activity.sending(true);
            BlockedWrite { until: Box::pin(sleep(patience)), taken: 0 }
        });
        loop {
            ready!(waiting.until.as_mut().poll(cx));
            if waiting.taken < MIN_BYTES {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for SlowReaderGuard<S> {
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

    /// hyper flushes when it has written all its output.
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

impl<S: AsyncRead + Unpin> AsyncRead for SlowReaderGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}
