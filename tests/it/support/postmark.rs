//! A mail provider on loopback with Postmark's API.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub struct Postmark {
    pub base_url: String,
    seen: Arc<Seen>,
    _server: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    /// Tokens and mails, whatever the response.
    sent: Mutex<Vec<(String, Value)>>,
    /// In order. Further mails are accepted.
    answers: Mutex<VecDeque<(u16, i64)>>,
}

impl Postmark {
    pub async fn start() -> Self {
        let seen = Arc::new(Seen::default());
        let router = Router::new().route("/email", post(take)).with_state(Arc::clone(&seen));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base_url = format!("http://{}", listener.local_addr().expect("an address"));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.expect("the provider runs") });
        Self { base_url, seen, _server: server }
    }

    pub fn answer(&self, status: u16, code: i64) {
        self.seen.answers.lock().expect("no panic").push_back((status, code));
    }

    /// Tokens and mails, whatever the response.
    pub fn sent(&self) -> Vec<(String, Value)> {
        self.seen.sent.lock().expect("no panic").clone()
    }
}

async fn take(State(seen): State<Arc<Seen>>, headers: HeaderMap, Json(mail): Json<Value>) -> (StatusCode, Json<Value>) {
    let token = headers["x-postmark-server-token"].to_str().expect("text").to_owned();
    seen.sent.lock().expect("no panic").push((token, mail));
    let answer = seen.answers.lock().expect("no panic").pop_front();
    let (status, code) = answer.unwrap_or((200, 0));
    let body = json!({"ErrorCode": code, "Message": "as the test wants it"});
    (StatusCode::from_u16(status).expect("a status"), Json(body))
}
