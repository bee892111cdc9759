mod agent_dialogs;
pub mod agents;
mod backup;
mod boxes;
mod bursts;
mod captures;
mod challenges;
mod chords;
mod clients;
mod conditions;
mod confinement;
mod cookies;
mod deaths;
mod device;
mod dialogs;
mod downloads;
mod dragging;
mod emulation;
mod evaluating;
mod everyday_tasks;
mod fields;
mod forms;
mod frames;
mod gestures;
mod history;
mod hostile;
mod interaction;
mod live;
mod locating;
mod locators;
mod menus;
mod miniwob;
mod models;
mod navigation;
mod pictures;
pub mod processes;
mod profiles;
mod reaching;
mod reading;
mod recordings;
mod requests;
mod resending;
mod snapshots;
mod turns;
mod uploads;
mod waiting;
mod walk;
mod windows;

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::support::{Answer, App, Client, Site, eventually};

pub struct Scene {
    pub app: App,
    pub site: Site,
    pub client: Client,
    pub session: String,
}

impl Scene {
    pub async fn start() -> Self {
        Self::of(App::webkit().start().await).await
    }

    pub async fn of(app: App) -> Self {
        let (site, client) = (Site::start().await, app.client().await);
        let session = client.session().await;
        Self { app, site, client, session }
    }

    /// The processes with this name stop for `late` at the start of an operation.
    pub async fn with_late<T>(&self, name: &str, late: Duration, operation: impl Future<Output = T>) -> T {
        let processes = self.app.processes(name);
        let send = |signal| processes.iter().for_each(|pid| kill(*pid, signal).expect("it runs"));
        send(Signal::SIGSTOP);
        let (ended, ()) = tokio::join!(operation, async {
            tokio::time::sleep(late).await;
            send(Signal::SIGCONT);
        });
        ended
    }

    pub async fn visit(&self, path: &str) -> Answer {
        self.client.navigate(&self.session, &self.site.url(path)).await
    }

    pub async fn show(&self, html: &str) {
        self.client.navigate(&self.session, &self.written(html)).await;
    }

    pub fn written(&self, html: &str) -> String {
        self.site.written(html)
    }

    pub async fn snapshot(&self) -> Value {
        self.operate("snapshot", json!({})).await.expect(200).body
    }

    pub async fn operate(&self, operation: &str, body: Value) -> Answer {
        self.client.operate(&self.session, operation, body).await
    }

    pub async fn act(&self, action: Value) -> Answer {
        self.operate("interact", json!({"action": action})).await
    }

    /// With a timeout of 10 s.
    pub async fn wait(&self, condition: Value) -> Answer {
        self.operate("wait", json!({"condition": condition, "timeout_ms": 10_000})).await
    }

    pub async fn text(&self, selector: &str) -> Value {
        text(&self.client, &self.session, selector).await
    }

    pub async fn state(&self) -> Value {
        self.client.get(&format!("/v1/sessions/{}/state", self.session)).await.expect(200).body
    }

    /// No `session.failed` was published either.
    pub async fn assert_ready(&self) {
        assert_eq!(self.client.status(&self.session).await, "ready");
        assert_eq!(failures(&self.app, &self.session).await, Vec::<Value>::new());
    }

    pub async fn begin_again(&mut self) {
        self.client.delete(&format!("/v1/sessions/{}", self.session)).await.expect(204);
        self.session = self.client.session().await;
    }
}

/// `null` when no element matches.
pub async fn text(client: &Client, session: &str, selector: &str) -> Value {
    let wanted = json!({"extractions": [{"name": "it", "selector": selector, "type": "text"}]});
    let answer = client.operate(session, "extract", wanted).await.expect(200);
    answer.body["value"]["it"].clone()
}

pub async fn failures(app: &App, session: &str) -> Vec<Value> {
    sqlx::query_scalar("select data from events where type = 'session.failed' and data->>'session_id' = $1 order by id")
        .bind(session)
        .fetch_all(&app.database.pool)
        .await
        .expect("events")
}

/// Contract: sessions 14, 15; events 3. `session.failed` was published exactly once with the fixed message, and further
/// operations are 410.
pub async fn assert_failed(app: &App, client: &Client, session: &str, operation: &str, error_name: &str) {
    assert_eq!(client.status(session).await, "errored");
    client.operate(session, "navigate", json!({"url": "http://example.com/"})).await.problem(410, "session-destroyed");
    let told = failures(app, session).await;
    assert_eq!(told.len(), 1, "{told:?}");
    let message = match error_name {
        "SessionTimeoutError" => "The session operation timed out.",
        "DriverError" => "The browser operation failed.",
        other => unreachable!("no test expects {other}"),
    };
    assert!(told[0]["duration_ms"].is_u64(), "{}", told[0]);
    let told = told.into_iter().map(|mut data| {
        data.as_object_mut().expect("an object").remove("duration_ms");
        data
    });
    let expected = json!({
        "session_id": session, "operation": operation, "error_name": error_name, "error_message": message,
    });
    assert_eq!(told.collect::<Vec<_>>(), [expected]);
}

pub async fn until_status(client: &Client, session: &str, status: &str) {
    eventually(Duration::from_secs(8), &format!("{session} is {status}"), async || {
        (client.status(session).await == status).then_some(())
    })
    .await;
}
