//! Accepts and serves connections until shutdown. axum's `serve` has no timeouts.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use kitfleet_jobs::wakeups::Wakeups;
use kitfleet_types::log_throttle::LogThrottle;
use sqlx::PgPool;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::body::{DrainedBody, WrittenBody};
use crate::http::client::Peer;
use crate::http::connections::{ConnectionSlot, Connections};
use crate::http::malformed::RejectionRewriter;
use crate::http::slow_reader::SlowReaderGuard;
use crate::http::state::{ApiConfig, App, ServeError};
use crate::http::{metric_report, metrics, worker_reaper};

/// For handlers to respond, in addition to the operations that they wait for.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// For a client to read its response, when nothing else delays the shutdown.
const LINGER: Duration = Duration::from_secs(10);
/// For a connection to close after the request to close.
const MOMENT: Duration = Duration::from_millis(50);
const KEY_CHECK_PERIOD: Duration = Duration::from_secs(1);
/// An address, a token and a few headers are far smaller.
const MAX_HEAD_BYTES: usize = 64 * 1024;

#[derive(Clone)]
pub struct Server {
    app: App,
    router: Router,
    /// Cancelled to accept no more work.
    shutdown: CancellationToken,
    /// Cancelled to abandon unfinished work.
    abort: CancellationToken,
}

impl Server {
    pub fn new(
        config: ApiConfig,
        db: PgPool,
        wakeups: Wakeups,
        router: fn(App) -> Router,
        shutdown: CancellationToken,
    ) -> Result<Self, ServeError> {
        let app = App::new(config, db, wakeups, metrics::install(&[]).map_err(ServeError::Metrics)?)?;
        Ok(Self { router: router(app.clone()), app, shutdown, abort: CancellationToken::new() })
    }

    /// Also runs the background tasks of the API. Answers the accepted requests after shutdown.
    pub async fn run_all(&self, listener: TcpListener) {
        // Requests in progress need the background tasks after `shutdown`, so these have their own token.
        let drained = CancellationToken::new();
        let background = TaskTracker::new();
        background.spawn(drained.clone().run_until_cancelled_owned(self.app.replies.clone().listen()));
        background.spawn(drained.clone().run_until_cancelled_owned(self.app.replies.clone().poll_overdue()));
        let app = self.app.clone();
        background.spawn(drained.clone().run_until_cancelled_owned(async move { app.rate_limits.sweep().await }));
        background.spawn(worker_reaper::run(self.app.db.clone(), drained.clone()));
        let (app, end) = (self.app.clone(), drained.clone());
        background.spawn(async move { app.last_used.write(&app.db, &end).await });
        let (app, end) = (self.app.clone(), drained.clone());
        background
            .spawn(async move { app.streams.follow(&app.db, &app.wakeups, app.config.notifications, &end).await });
        let app = self.app.clone();
        background.spawn(drained.clone().run_until_cancelled_owned(async move { app.pulse.run_probe(&app.db).await }));
        let app = self.app.clone();
        background
            .spawn(drained.clone().run_until_cancelled_owned(async move { app.status_cache.report(&app.db).await }));
        let server = self.clone();
        background.spawn(drained.clone().run_until_cancelled_owned(async move { server.report_metrics().await }));
        let app = self.app.clone();
        app.refresh_encryption_key().await;
        background.spawn(drained.clone().run_until_cancelled_owned(async move {
            loop {
                tokio::time::sleep(KEY_CHECK_PERIOD).await;
                app.refresh_encryption_key().await;
            }
        }));
        background.close();

        self.run(listener).await;
        drained.cancel();
        background.wait().await;
    }

    pub async fn report_metrics(&self) {
        metric_report::report(&self.app.db, &self.app.metrics).await;
    }

    /// Answers the accepted requests after shutdown.
    pub async fn run(&self, listener: TcpListener) {
        let connections = TaskTracker::new();
        self.accept(&listener, &connections).await;
        drop(listener);
        self.drain(&connections).await;
    }

    async fn accept(&self, listener: &TcpListener, tasks: &TaskTracker) {
        static REFUSED: LogThrottle = LogThrottle::new();
        static FAILED: LogThrottle = LogThrottle::new();
        let connections = Connections::new(self.app.config.connections, &self.app.config.trusted_proxies);
        while let Some(accepted) = self.shutdown.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((stream, peer)) => match connections.admit(peer.ip()) {
                    Some(place) => {
                        tasks.spawn(self.clone().serve(stream, peer, place));
                    }
                    None => {
                        REFUSED.log(|held_back| {
                            tracing::warn!(%peer, held_back, "connection refused: too many connections are busy");
                        });
                    }
                },
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    // File descriptors have probably run out: other connections must close before the next accept can succeed.
                    let made_room = connections.make_room();
                    FAILED.log(|held_back| tracing::error!(%error, held_back, "cannot accept connections"));
                    tokio::time::sleep(if made_room { MOMENT } else { Duration::from_secs(1) }).await;
                }
            }
        }
    }

    async fn serve(self, stream: TcpStream, peer: SocketAddr, place: ConnectionSlot) {
        // Responses are written whole, so delaying a packet for more data has no benefit.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "connection closed before it was served");
            return;
        }
        let place = Arc::new(place);
        let activity = &Arc::clone(&place.activity);
        let stream = SlowReaderGuard::new(stream, self.app.config.write_timeout, Arc::clone(activity));
        let stream = RejectionRewriter::new(stream, &self.app.config.errors_url);
        let (body_timeout, given_up) = (self.app.config.body_timeout, self.app.bodies_given_up.clone());
        let router = TowerToHyperService::new(self.router);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (router, under_way) = (router.clone(), activity.begin());
            let mut request: Request = DrainedBody::of(request, body_timeout, &given_up).map(Body::new);
            request.extensions_mut().insert(Peer(peer.ip()));
            // An upgraded connection keeps its slot.
            request.extensions_mut().insert(Arc::clone(&place));
            async move {
                let answer = answer(router, request).await;
                Ok::<_, Infallible>(answer.map(|body| WrittenBody::of(body, under_way)))
            }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(self.app.config.header_timeout).max_buf_size(MAX_HEAD_BYTES);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = activity.close_requested() => None,
            () = self.shutdown.cancelled() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            // The connection makes room for another and may have sent a partial head; a request that has become complete in the
            // meantime is answered.
            None if activity.is_idle() && !self.shutdown.is_cancelled() => return,
            None => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = self.abort.cancelled() => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended with an error");
        }
    }

    /// Time limits apply to incomplete requests, their operations, and clients that do not read their responses.
    async fn drain(&self, connections: &TaskTracker) {
        let handlers = &self.app.handlers;
        self.app.wait_queue.close();
        self.app.streams.end();
        // Viewers reconnect through another process.
        self.app.tunnels_cut.cancel();
        self.app.tunnels.close();
        connections.close();
        handlers.close();
        if timeout(self.app.config.drain_timeout, handlers.wait()).await.is_err() {
            self.app.bodies_given_up.cancel();
        }
        if timeout(ANSWER_WITHIN, handlers.wait()).await.is_err() {
            tracing::warn!("operations are still running: answering their callers with a timeout");
            self.app.replies.stop_waiting();
        }
        if timeout(LINGER, connections.wait()).await.is_err() {
            self.abort.cancel();
            connections.wait().await;
        }
        self.app.tunnels.wait().await;
        // Handlers whose clients have gone.
        if timeout(ANSWER_WITHIN, handlers.wait()).await.is_err() {
            tracing::error!("abandoning requests that did not end in time");
        }
    }
}

async fn answer(router: TowerToHyperService<Router>, request: Request) -> axum::response::Response {
    match hyper::service::Service::call(&router, request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// The client gave up before the connection was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
