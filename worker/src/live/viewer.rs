use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use kitfleet_live::link::Stream;
use kitfleet_live::messages::{Change, Closing, FromViewer, MESSAGE_BYTES, Refusal, Role, ToViewer};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::{Role as Part, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tokio_util::sync::CancellationToken;

use super::hub::Hub;
use super::pictures::{LatestFrame, MAX_IN_FLIGHT, PageTexts, Pictures};
use super::touch_state;
use super::viewer_input::{InputRight, ViewerInput};
use super::viewers::{Control, ViewerHandle};

const PING_EVERY: Duration = Duration::from_secs(10);
/// Without a message from the viewer, and for sending one message.
const SILENCE: Duration = Duration::from_secs(30);
const GOODBYE: Duration = Duration::from_secs(1);
/// Contract: live 14.
const EVENTS_A_SECOND: NonZeroU32 = NonZeroU32::new(1_000).expect("not zero");
/// Each change of the driver is written to the audit log, so it counts as many events (contract: live 36).
const EVENTS_OF_A_CHANGE: usize = 100;
/// Of all kinds (contract: live 20).
const MESSAGES_A_SECOND: NonZeroU32 = NonZeroU32::new(1_000).expect("not zero");

/// Bytes that are read of a message. A message over the limit of the contract is refused. A message over this limit closes the
/// connection.
const READ_BYTES: usize = 4 * MESSAGE_BYTES;

type Socket = WebSocketStream<Box<dyn Stream>>;

pub async fn serve(stream: Box<dyn Stream>, hub: &Hub, handle: ViewerHandle, stopping: &CancellationToken) {
    let config = WebSocketConfig::default()
        .read_buffer_size(4 * 1024)
        // Buffered data would be pictures that become outdated.
        .write_buffer_size(0)
        .max_message_size(Some(READ_BYTES))
        .max_frame_size(Some(READ_BYTES));
    let socket = WebSocketStream::from_raw_socket(stream, Part::Server, Some(config)).await;
    let (sink, stream) = socket.split();
    let withdrawn = handle.withdrawn.clone();
    let mut viewer = Viewer::new(hub, handle, sink, stream);
    let closing = tokio::select! {
        biased;
        () = withdrawn.cancelled() => Some(Closing::Withdrawn),
        () = hub.ended.cancelled() => Some(Closing::Ended),
        () = stopping.cancelled() => Some(Closing::Stopping),
        closing = viewer.serve() => closing,
    };
    if let Some(closing) = closing {
        // A viewer that does not read misses the close frame.
        let _ = timeout(GOODBYE, viewer.close_gracefully(closing)).await;
    }
}

struct Viewer<'a> {
    hub: &'a Hub,
    handle: ViewerHandle,
    sink: SplitSink<Socket, Message>,
    stream: SplitStream<Socket>,
    has: u32,
    /// Of the pictures that are not acknowledged yet.
    in_flight: VecDeque<Instant>,
    /// Minimum time between two pictures while the first one is unacknowledged: two thirds of the last round trip. A slow
    /// connection is then never idle, and a picture waits for about half of the transfer of the previous one.
    pace: Duration,
    last_message_at: Instant,
    shown_texts: PageTexts,
    rate: DefaultDirectRateLimiter,
    messages: DefaultDirectRateLimiter,
}

enum ViewEnd {
    Gone,
    Close(Closing),
}

impl<'a> Viewer<'a> {
    fn new(hub: &'a Hub, handle: ViewerHandle, sink: SplitSink<Socket, Message>, stream: SplitStream<Socket>) -> Self {
        let rate = RateLimiter::direct(Quota::per_second(EVENTS_A_SECOND));
        let messages = RateLimiter::direct(Quota::per_second(MESSAGES_A_SECOND));
        let (shown_texts, last_message_at) = (PageTexts::default(), Instant::now());
        Self {
            hub,
            handle,
            sink,
            stream,
            has: 0,
            in_flight: VecDeque::new(),
            pace: Duration::ZERO,
            last_message_at,
            shown_texts,
            rate,
            messages,
        }
    }

    async fn serve(&mut self) -> Option<Closing> {
        match self.run().await {
            ViewEnd::Gone => None,
            ViewEnd::Close(closing) => Some(closing),
        }
    }

    async fn run(&mut self) -> ViewEnd {
        let pictures: &Pictures = &self.hub.pictures;
        let (mut newest, mut texts) = (pictures.newest(), pictures.texts());
        let mut budget = pictures.register_viewer();
        let mut pings = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (session_id, role) = (self.hub.session, self.handle.admission.role);
        if let Err(over) = self.send_message(&ToViewer::Hello { session_id, role }).await {
            return over;
        }
        budget.has_room(true);
        loop {
            let (ready_at, has_room) = (self.ready_at(), self.has_room());
            let done = tokio::select! {
                changed = newest.changed(), if has_room => match changed {
                    Ok(()) => {
                        let picture = newest.borrow_and_update().clone();
                        budget.is_full();
                        let lacks = self.show(picture).await;
                        if let Ok(lacks) = lacks && self.has_room() {
                            budget.has_room(lacks);
                        }
                        lacks.map(|_| ())
                    }
                    Err(_) => return ViewEnd::Close(Closing::Ended),
                },
                () = sleep_until(ready_at.unwrap_or_else(Instant::now)), if ready_at.is_some() && !has_room => {
                    budget.has_room(lacks_base_picture(&newest, self.has));
                    Ok(())
                }
                Ok(()) = texts.changed() => {
                    let texts = texts.borrow_and_update().clone();
                    self.send_texts(texts).await
                }
                Ok(()) = self.handle.control.changed() => self.send_control().await,
                Some((reason, detail)) = self.handle.refusals.recv() => self.refuse(reason, detail).await,
                _ = pings.tick() => self.ping().await,
                message = self.stream.next() => match message {
                    Some(Ok(message)) => match self.receive(message).await {
                        Ok(Some(FromViewer::Ack { .. })) => {
                            if let Some(sent_at) = self.in_flight.pop_front() {
                                self.pace = sent_at.elapsed() * 2 / 3;
                            }
                            if self.has_room() {
                                budget.has_room(lacks_base_picture(&newest, self.has));
                            }
                            Ok(())
                        }
                        Ok(Some(FromViewer::Input { events })) => self.take(InputRight::Events(events)).await,
                        Ok(Some(FromViewer::TakeOver)) => self.take(InputRight::Lane(Change::TakeOver)).await,
                        Ok(Some(FromViewer::HandBack)) => self.take(InputRight::Lane(Change::HandBack)).await,
                        Ok(None) => Ok(()),
                        Err(over) => Err(over),
                    },
                    Some(Err(Error::Capacity(_) | Error::Utf8(_))) => return ViewEnd::Close(Closing::Unreadable),
                    Some(Err(_)) | None => return ViewEnd::Gone,
                },
            };
            if let Err(over) = done {
                return over;
            }
        }
    }

    /// `None` until a picture is acknowledged.
    fn ready_at(&self) -> Option<Instant> {
        let last = self.in_flight.back().map_or_else(Instant::now, |sent_at| *sent_at + self.pace);
        (self.in_flight.len() < MAX_IN_FLIGHT).then_some(last)
    }

    fn has_room(&self) -> bool {
        self.ready_at().is_some_and(|at| at <= Instant::now())
    }

    /// Only if the viewer has the picture's base. Returns whether the base is missing.
    async fn show(&mut self, picture: Option<LatestFrame>) -> Result<bool, ViewEnd> {
        let Some(LatestFrame { seq, base, message }) = picture else { return Ok(false) };
        if base != 0 && base != self.has {
            return Ok(true);
        }
        self.has = seq;
        self.in_flight.push_back(Instant::now());
        self.send(Message::Binary(message)).await?;
        Ok(false)
    }

    async fn send_texts(&mut self, texts: PageTexts) -> Result<(), ViewEnd> {
        let before = std::mem::replace(&mut self.shown_texts, texts.clone());
        let controls = self.handle.admission.role == Role::Controller;
        if texts.page != before.page
            && let Some(page) = &texts.page
        {
            self.send_message(page).await?;
        }
        if controls
            && texts.menu != before.menu
            && let Some(menu) = &texts.menu
        {
            self.send_message(menu).await?;
        }
        if controls
            && texts.dialog != before.dialog
            && let Some(dialog) = &texts.dialog
        {
            self.send_message(dialog).await?;
        }
        Ok(())
    }

    async fn send_control(&mut self) -> Result<(), ViewEnd> {
        let control = *self.handle.control.borrow_and_update();
        match control {
            Some(Control { driver, may_act, offers }) => {
                self.send_message(&ToViewer::Control { driver, may_act, offers }).await
            }
            None => Ok(()),
        }
    }

    async fn refuse(&mut self, reason: Refusal, detail: &str) -> Result<(), ViewEnd> {
        self.send_message(&ToViewer::Refused { reason, detail: detail.to_owned() }).await
    }

    async fn ping(&mut self) -> Result<(), ViewEnd> {
        if self.last_message_at.elapsed() >= SILENCE {
            return Err(ViewEnd::Close(Closing::Silent));
        }
        self.send(Message::Ping(Bytes::new())).await
    }

    async fn receive(&mut self, message: Message) -> Result<Option<FromViewer>, ViewEnd> {
        self.last_message_at = Instant::now();
        if self.messages.check().is_err() {
            return Err(ViewEnd::Close(Closing::Flooding));
        }
        match message {
            Message::Text(text) if text.len() > MESSAGE_BYTES => {
                self.refuse(Refusal::Invalid, "a message has at most 64 KiB").await?;
                Ok(None)
            }
            Message::Text(text) => match serde_json::from_str(&text) {
                Ok(message) => Ok(Some(message)),
                Err(_) => Err(ViewEnd::Close(Closing::Unreadable)),
            },
            Message::Binary(_) => Err(ViewEnd::Close(Closing::Unreadable)),
            Message::Close(_) => Err(ViewEnd::Gone),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(None),
        }
    }

    /// Forwards input, or tells the viewer why it is refused.
    async fn take(&mut self, what: InputRight) -> Result<(), ViewEnd> {
        match self.forward_input(what) {
            Ok(()) => Ok(()),
            Err((reason, detail)) => self.refuse(reason, detail).await,
        }
    }

    fn forward_input(&self, what: InputRight) -> Result<(), (Refusal, &'static str)> {
        let admission = Arc::clone(&self.handle.admission);
        if admission.role != Role::Controller {
            return Err((Refusal::Viewer, "a viewer may only watch"));
        }
        let count = match &what {
            InputRight::Events(events) => {
                touch_state::check(events, self.hub.viewport()).map_err(|detail| (Refusal::Invalid, detail))?;
                events.len()
            }
            InputRight::Lane(_) if admission.takes_over => EVENTS_OF_A_CHANGE,
            InputRight::Lane(_) => return Err((Refusal::Forbidden, "this ticket may not change the driver")),
        };
        let too_fast = (Refusal::TooFast, "more than 1000 events per second, or more than the browser accepts");
        let Some(count) = u32::try_from(count).ok().and_then(NonZeroU32::new) else { return Ok(()) };
        match self.rate.check_n(count) {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Err(too_fast),
        }
        self.hub.inputs.try_send(ViewerInput { viewer: self.handle.id, admission, what }).map_err(|_| too_fast)
    }

    async fn send_message(&mut self, message: &ToViewer) -> Result<(), ViewEnd> {
        let text = serde_json::to_string(message).expect("messages have string keys");
        self.send(Message::text(text)).await
    }

    async fn send(&mut self, message: Message) -> Result<(), ViewEnd> {
        match timeout(SILENCE, self.sink.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ViewEnd::Gone),
        }
    }

    /// Waits until the viewer has closed the connection.
    async fn close_gracefully(&mut self, closing: Closing) {
        let frame = CloseFrame { code: closing.code().into(), reason: closing.reason().into() };
        if self.sink.send(Message::Close(Some(frame))).await.is_ok() {
            while let Some(Ok(_)) = self.stream.next().await {}
        }
    }
}

/// Base of the newest picture, for a viewer that has picture `has`.
fn lacks_base_picture(newest: &watch::Receiver<Option<LatestFrame>>, has: u32) -> bool {
    newest.borrow().as_ref().is_some_and(|newest| newest.seq != has && newest.base != 0 && newest.base != has)
}
