//! One viewer's connection.

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
use super::input_session::{InputRight, ViewerInput};
use super::pictures::{LatestFrame, ON_THEIR_WAY, PageTexts, Pictures};
use super::touch_state;
use super::viewers::{Control, ViewerHandle};

/// How often a viewer is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(10);
/// How long one may say nothing, and take nothing.
const SILENCE: Duration = Duration::from_secs(30);
/// How long it may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);
/// Events a second (contract: live 14).
const EVENTS_A_SECOND: NonZeroU32 = NonZeroU32::new(1_000).expect("not zero");
/// What a change of who drives counts as: it is written into the audit log (contract: live 36).
const EVENTS_OF_A_CHANGE: usize = 100;
/// Messages a second, of whatever kind (contract: live 20).
const MESSAGES_A_SECOND: NonZeroU32 = NonZeroU32::new(1_000).expect("not zero");

/// The most that is read of a message. One that is longer than it may be is refused; of a longer one than this the connection is closed.
const READ_BYTES: usize = 4 * MESSAGE_BYTES;

type Socket = WebSocketStream<Box<dyn Stream>>;

/// Serves a viewer until it leaves, or has to.
pub async fn serve(stream: Box<dyn Stream>, hub: &Hub, seat: ViewerHandle, stopping: &CancellationToken) {
    let config = WebSocketConfig::default()
        .read_buffer_size(4 * 1024)
        // What waits here is a picture that gets old.
        .write_buffer_size(0)
        .max_message_size(Some(READ_BYTES))
        .max_frame_size(Some(READ_BYTES));
    let socket = WebSocketStream::from_raw_socket(stream, Part::Server, Some(config)).await;
    let (sink, stream) = socket.split();
    let withdrawn = seat.withdrawn.clone();
    let mut viewer = Viewer::new(hub, seat, sink, stream);
    let closing = tokio::select! {
        biased;
        () = withdrawn.cancelled() => Some(Closing::Withdrawn),
        () = hub.ended.cancelled() => Some(Closing::Ended),
        () = stopping.cancelled() => Some(Closing::Stopping),
        closing = viewer.serve() => closing,
    };
    if let Some(closing) = closing {
        // One that does not read hears nothing of it.
        let _ = timeout(GOODBYE, viewer.say_goodbye(closing)).await;
    }
}

struct Viewer<'a> {
    hub: &'a Hub,
    seat: ViewerHandle,
    sink: SplitSink<Socket, Message>,
    stream: SplitStream<Socket>,
    /// The number of the last picture that was sent.
    has: u32,
    /// When those were sent that are not acknowledged yet.
    on_their_way: VecDeque<Instant>,
    /// How long after a picture the next is sent while that is on its way: two thirds of what the last one took. A slow line is
    /// never idle then, and what it brings has waited for half of the picture before it and not for all.
    pace: Duration,
    heard_at: Instant,
    told: PageTexts,
    rate: DefaultDirectRateLimiter,
    messages: DefaultDirectRateLimiter,
}

/// Why nothing more is said.
enum ViewEnd {
    /// It is gone.
    Gone,
    /// It has to go.
    Close(Closing),
}

impl<'a> Viewer<'a> {
    fn new(hub: &'a Hub, seat: ViewerHandle, sink: SplitSink<Socket, Message>, stream: SplitStream<Socket>) -> Self {
        let rate = RateLimiter::direct(Quota::per_second(EVENTS_A_SECOND));
        let messages = RateLimiter::direct(Quota::per_second(MESSAGES_A_SECOND));
        let (told, heard_at) = (PageTexts::default(), Instant::now());
        Self {
            hub,
            seat,
            sink,
            stream,
            has: 0,
            on_their_way: VecDeque::new(),
            pace: Duration::ZERO,
            heard_at,
            told,
            rate,
            messages,
        }
    }

    async fn serve(&mut self) -> Option<Closing> {
        match self.talk().await {
            ViewEnd::Gone => None,
            ViewEnd::Close(closing) => Some(closing),
        }
    }

    async fn talk(&mut self) -> ViewEnd {
        let pictures: &Pictures = &self.hub.pictures;
        let (mut newest, mut words) = (pictures.newest(), pictures.words());
        let mut appetite = pictures.appetite_of_one();
        let mut pings = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (session_id, role) = (self.hub.session, self.seat.admission.role);
        if let Err(over) = self.tell(&ToViewer::Hello { session_id, role }).await {
            return over;
        }
        appetite.has_room(true);
        loop {
            let (room_at, has_room) = (self.room_at(), self.has_room());
            let done = tokio::select! {
                changed = newest.changed(), if has_room => match changed {
                    Ok(()) => {
                        let picture = newest.borrow_and_update().clone();
                        appetite.is_full();
                        let lacks = self.show(picture).await;
                        if let Ok(lacks) = lacks && self.has_room() {
                            appetite.has_room(lacks);
                        }
                        lacks.map(|_| ())
                    }
                    Err(_) => return ViewEnd::Close(Closing::Ended),
                },
                () = sleep_until(room_at.unwrap_or_else(Instant::now)), if room_at.is_some() && !has_room => {
                    appetite.has_room(lacks_its_base(&newest, self.has));
                    Ok(())
                }
                Ok(()) = words.changed() => {
                    let words = words.borrow_and_update().clone();
                    self.tell_words(words).await
                }
                Ok(()) = self.seat.control.changed() => self.tell_control().await,
                Some((reason, detail)) = self.seat.refusals.recv() => self.refuse(reason, detail).await,
                _ = pings.tick() => self.ping().await,
                message = self.stream.next() => match message {
                    Some(Ok(message)) => match self.hear(message).await {
                        Ok(Some(FromViewer::Ack { .. })) => {
                            if let Some(sent_at) = self.on_their_way.pop_front() {
                                self.pace = sent_at.elapsed() * 2 / 3;
                            }
                            if self.has_room() {
                                appetite.has_room(lacks_its_base(&newest, self.has));
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

    /// From when on another picture may be sent. `None` before one is acknowledged.
    fn room_at(&self) -> Option<Instant> {
        let last = self.on_their_way.back().map_or_else(Instant::now, |sent_at| *sent_at + self.pace);
        (self.on_their_way.len() < ON_THEIR_WAY).then_some(last)
    }

    fn has_room(&self) -> bool {
        self.room_at().is_some_and(|at| at <= Instant::now())
    }

    /// Sends a picture, if the viewer has what it is drawn over. Answers whether it lacks that.
    async fn show(&mut self, picture: Option<LatestFrame>) -> Result<bool, ViewEnd> {
        let Some(LatestFrame { seq, base, message }) = picture else { return Ok(false) };
        if base != 0 && base != self.has {
            return Ok(true);
        }
        self.has = seq;
        self.on_their_way.push_back(Instant::now());
        self.send(Message::Binary(message)).await?;
        Ok(false)
    }

    async fn tell_words(&mut self, words: PageTexts) -> Result<(), ViewEnd> {
        let before = std::mem::replace(&mut self.told, words.clone());
        let controls = self.seat.admission.role == Role::Controller;
        if words.page != before.page
            && let Some(page) = &words.page
        {
            self.tell(page).await?;
        }
        if controls
            && words.menu != before.menu
            && let Some(menu) = &words.menu
        {
            self.tell(menu).await?;
        }
        if controls
            && words.dialog != before.dialog
            && let Some(dialog) = &words.dialog
        {
            self.tell(dialog).await?;
        }
        Ok(())
    }

    async fn tell_control(&mut self) -> Result<(), ViewEnd> {
        let control = *self.seat.control.borrow_and_update();
        match control {
            Some(Control { driver, may_act, offers }) => {
                self.tell(&ToViewer::Control { driver, may_act, offers }).await
            }
            None => Ok(()),
        }
    }

    async fn refuse(&mut self, reason: Refusal, detail: &str) -> Result<(), ViewEnd> {
        self.tell(&ToViewer::Refused { reason, detail: detail.to_owned() }).await
    }

    async fn ping(&mut self) -> Result<(), ViewEnd> {
        if self.heard_at.elapsed() >= SILENCE {
            return Err(ViewEnd::Close(Closing::Silent));
        }
        self.send(Message::Ping(Bytes::new())).await
    }

    async fn hear(&mut self, message: Message) -> Result<Option<FromViewer>, ViewEnd> {
        self.heard_at = Instant::now();
        if self.messages.check().is_err() {
            return Err(ViewEnd::Close(Closing::Flooding));
        }
        match message {
            Message::Text(text) if text.len() > MESSAGE_BYTES => {
                self.refuse(Refusal::Invalid, "a message has at most 64 KiB").await?;
                Ok(None)
            }
            Message::Text(text) => match serde_json::from_str(&text) {
                Ok(said) => Ok(Some(said)),
                Err(_) => Err(ViewEnd::Close(Closing::Unreadable)),
            },
            Message::Binary(_) => Err(ViewEnd::Close(Closing::Unreadable)),
            Message::Close(_) => Err(ViewEnd::Gone),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(None),
        }
    }

    /// Hands on what a person does, or says why not.
    async fn take(&mut self, what: InputRight) -> Result<(), ViewEnd> {
        match self.hand_on(what) {
            Ok(()) => Ok(()),
            Err((reason, detail)) => self.refuse(reason, detail).await,
        }
    }

    /// Hands on what a person does, if it is one who may, within bounds.
    fn hand_on(&self, what: InputRight) -> Result<(), (Refusal, &'static str)> {
        let admission = Arc::clone(&self.seat.admission);
        if admission.role != Role::Controller {
            return Err((Refusal::Viewer, "a viewer may only look"));
        }
        let count = match &what {
            InputRight::Events(events) => {
                touch_state::check(events, self.hub.viewport()).map_err(|detail| (Refusal::Invalid, detail))?;
                events.len()
            }
            InputRight::Lane(_) if admission.takes_over => EVENTS_OF_A_CHANGE,
            InputRight::Lane(_) => return Err((Refusal::Forbidden, "this ticket may not change who drives")),
        };
        let too_fast = (Refusal::TooFast, "more than a thousand events a second, or more than the browser takes");
        let Some(count) = u32::try_from(count).ok().and_then(NonZeroU32::new) else { return Ok(()) };
        match self.rate.check_n(count) {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Err(too_fast),
        }
        self.hub.deeds.try_send(ViewerInput { seat: self.seat.id, admission, what }).map_err(|_| too_fast)
    }

    async fn tell(&mut self, said: &ToViewer) -> Result<(), ViewEnd> {
        let text = serde_json::to_string(said).expect("messages have string keys");
        self.send(Message::text(text)).await
    }

    async fn send(&mut self, message: Message) -> Result<(), ViewEnd> {
        match timeout(SILENCE, self.sink.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ViewEnd::Gone),
        }
    }

    /// Says why it is over, and waits until that was heard.
    async fn say_goodbye(&mut self, closing: Closing) {
        let frame = CloseFrame { code: closing.code().into(), reason: closing.reason().into() };
        if self.sink.send(Message::Close(Some(frame))).await.is_ok() {
            while let Some(Ok(_)) = self.stream.next().await {}
        }
    }
}

/// Whether a viewer that has this picture lacks what the newest is drawn over.
fn lacks_its_base(newest: &watch::Receiver<Option<LatestFrame>>, has: u32) -> bool {
    newest.borrow().as_ref().is_some_and(|newest| newest.seq != has && newest.base != 0 && newest.base != has)
}
