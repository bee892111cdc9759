//! A viewer of a live view, which speaks the protocol to the worker as the API forwards it.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use kitfleet_domain::workers::LiveEnd;
use kitfleet_live::link::{ConnectError, Greeting, Stream, connect};
use kitfleet_live::pictures::Picture;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role as Part;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

use super::{App, Client, live_socket};

/// For a picture or a message.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Viewer {
    socket: WebSocketStream<Box<dyn Stream>>,
    /// One pixel for each CSS pixel.
    canvas: Vec<[u8; 3]>,
    size: [u16; 2],
    pub last: Option<(Picture, usize)>,
    pub pictures: usize,
    /// Except for pictures.
    pub messages: Vec<Value>,
    pub acknowledges: bool,
    pub closed: Option<u16>,
}

/// Of the API and the live view of a service in one process.
pub async fn ports(app: &App) -> HashSet<SocketAddr> {
    let query = "select live_address from workers";
    let live: String = sqlx::query_scalar(query).fetch_one(&app.database.pool).await.expect("a worker");
    [app.base_url.trim_start_matches("http://"), &live].map(|address| address.parse().expect("an address")).into()
}

pub async fn end_of(app: &App, session: &str) -> LiveEnd {
    let query = "select live_address, live_fingerprint from workers w join sessions s on s.worker_id = w.id
                 where 'ses_' || s.id = $1";
    let (address, fingerprint) =
        sqlx::query_as(query).bind(session).fetch_one(&app.database.pool).await.expect("a worker");
    LiveEnd { address, fingerprint }
}

pub async fn ticket(client: &Client, session: &str, role: &str, client_id: Option<&str>) -> String {
    let mut body = json!({"role": role});
    if let Some(client_id) = client_id {
        body["client_id"] = client_id.into();
    }
    let answer = client.post(&format!("/v1/sessions/{session}/live-tickets"), body).await.expect(201);
    answer.body["ticket"].as_str().expect("a ticket").to_owned()
}

pub async fn show_ticket(app: &App, session: &str, ticket: &str) -> Result<Box<dyn Stream>, ConnectError> {
    let greeting = Greeting { session_id: session.parse().expect("an id"), ticket: ticket.to_owned() };
    connect(&end_of(app, session).await, &greeting).await
}

impl Viewer {
    pub async fn watch(app: &App, client: &Client, session: &str) -> Self {
        Self::join(app, client, session, "viewer", None).await
    }

    pub async fn control(app: &App, client: &Client, session: &str, client_id: Option<&str>) -> Self {
        Self::join(app, client, session, "controller", client_id).await
    }

    async fn join(app: &App, client: &Client, session: &str, role: &str, client_id: Option<&str>) -> Self {
        let ticket = ticket(client, session, role, client_id).await;
        let stream = show_ticket(app, session, &ticket).await.expect("let in");
        Self::over(stream).await
    }

    pub async fn through_the_api(app: &App, session: &str, ticket: &str) -> Self {
        let host = app.base_url.trim_start_matches("http://");
        let stream = TcpStream::connect(host).await.expect("a connection");
        let stream = live_socket::open(stream, host, session, ticket).await.expect("it is opened");
        Self::over(Box::new(stream)).await
    }

    pub async fn over(stream: Box<dyn Stream>) -> Self {
        let socket = WebSocketStream::from_raw_socket(stream, Part::Client, None).await;
        let (canvas, size) = (Vec::new(), [0, 0]);
        Self { socket, canvas, size, last: None, pictures: 0, messages: Vec::new(), acknowledges: true, closed: None }
    }

    /// Returns `false` at the end of the connection.
    async fn read(&mut self) -> bool {
        match self.socket.next().await {
            Some(Ok(Message::Binary(message))) => {
                let (picture, jpeg) = Picture::read(&message).expect("a picture");
                self.draw(picture, jpeg);
                self.last = Some((picture, message.len()));
                self.pictures += 1;
                if self.acknowledges {
                    self.send(json!({"type": "ack", "seq": picture.seq})).await;
                }
            }
            Some(Ok(Message::Text(text))) => self.messages.push(serde_json::from_str(&text).expect("JSON")),
            Some(Ok(Message::Close(frame))) => self.closed = frame.map(|frame| frame.code.into()),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return false,
        }
        true
    }

    fn draw(&mut self, picture: Picture, jpeg: &[u8]) {
        let mut decoder = JpegDecoder::new(ZCursor::new(jpeg));
        let pixels = decoder.decode().expect("a JPEG");
        let (width, height) = decoder.dimensions().expect("a size");
        if picture.base == 0 {
            self.size = picture.view;
            self.canvas = vec![[0; 3]; usize::from(self.size[0]) * usize::from(self.size[1])];
        } else {
            assert_eq!(self.last.map(|(last, _)| last.seq), Some(picture.base), "it is drawn over what is there");
        }
        let [left, top, across, down] = picture.rect.map(usize::from);
        for y in 0..down {
            for x in 0..across {
                let from = (y * height / down * width + x * width / across) * 3;
                self.canvas[(top + y) * usize::from(self.size[0]) + left + x] =
                    [pixels[from], pixels[from + 1], pixels[from + 2]];
            }
        }
    }

    /// Red, green and blue.
    pub fn pixel(&self, x: usize, y: usize) -> [u8; 3] {
        self.canvas.get(y * usize::from(self.size[0]) + x).copied().unwrap_or_default()
    }

    /// Within the accuracy of a JPEG.
    pub fn shows(&self, (x, y): (usize, usize), colour: [u8; 3]) -> bool {
        self.pixel(x, y).iter().zip(colour).all(|(seen, wanted)| seen.abs_diff(wanted) < 24)
    }

    pub async fn until<T>(&mut self, what: &str, mut seen: impl FnMut(&Self) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = seen(self) {
                return found;
            }
            let more = timeout_at(deadline, self.read()).await;
            assert_eq!(more, Ok(true), "waited for {what}: {:?}, {:?}", self.messages, self.closed);
        }
    }

    /// Received since the index `from`.
    pub async fn wait_for_message(&mut self, kind: &str, from: usize) -> Value {
        self.until(kind, |viewer| viewer.messages.iter().skip(from).find(|message| message["type"] == kind).cloned())
            .await
    }

    pub async fn read_for(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while let Ok(true) = timeout_at(deadline, self.read()).await {}
    }

    /// Returns the close code.
    pub async fn until_closed(&mut self) -> Option<u16> {
        let closing = async { while self.read().await {} };
        timeout(PATIENCE, closing).await.expect("closed");
        self.closed
    }

    pub async fn send(&mut self, message: Value) {
        self.send_raw(&message.to_string()).await;
    }

    /// The text may be invalid.
    pub async fn send_raw(&mut self, message: &str) {
        // Reading detects a closed connection.
        let _ = self.socket.send(Message::text(message)).await;
    }

    /// May not be UTF-8.
    pub async fn send_bytes(&mut self, message: Vec<u8>) {
        let frame = Frame::message(message, OpCode::Data(Data::Text), true);
        let _ = self.socket.send(Message::Frame(frame)).await;
    }

    pub async fn act(&mut self, events: Value) {
        self.send(json!({"type": "input", "events": events})).await;
    }

    pub async fn tap(&mut self, x: u32, y: u32) {
        let step = |phase: &str| json!({"type": "touch", "finger": 0, "phase": phase, "x": x, "y": y});
        self.act(json!([step("begin"), step("end")])).await;
    }
}
