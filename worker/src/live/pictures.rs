//! What the viewers of a session are shown. There is one newest picture, made once for all, and who has no room for it gets a later one.

use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kitfleet_domain::operations::Failure;
use kitfleet_host_protocol as host;
use kitfleet_live::messages::{Dialog, DialogKind, MenuItem, ToViewer};
use kitfleet_live::pictures::Picture;
use tokio::sync::{Notify, watch};

use crate::browser::View;

/// How many pictures may be on their way to a viewer (contract: live 3).
pub const ON_THEIR_WAY: usize = 2;

/// The newest of everything.
pub struct Pictures {
    picture: watch::Sender<Option<LatestFrame>>,
    words: watch::Sender<PageTexts>,
    wanted: Notify,
    hunger: Mutex<FrameDemand>,
}

/// A picture as it goes to viewers, and what has to be there before it.
#[derive(Clone)]
pub struct LatestFrame {
    /// Its number.
    pub seq: u32,
    /// The number of the one that it is drawn over; 0 for none.
    pub base: u32,
    /// The message.
    pub message: Bytes,
}

/// What else there is to be seen, as it is told.
#[derive(Clone, Default)]
pub struct PageTexts {
    /// To everybody.
    pub page: Option<ToViewer>,
    /// To those who may act.
    pub menu: Option<ToViewer>,
    /// To those who may act.
    pub dialog: Option<ToViewer>,
    /// Whether something waits for an answer.
    pub asks: bool,
}

/// How many viewers have room for a picture, and whether one of them lacks what a part would be drawn over.
#[derive(Default)]
struct FrameDemand {
    viewers: u32,
    whole: bool,
}

impl Default for Pictures {
    fn default() -> Self {
        Self {
            picture: watch::Sender::new(None),
            words: watch::Sender::new(PageTexts::default()),
            wanted: Notify::new(),
            hunger: Mutex::default(),
        }
    }
}

impl Pictures {
    /// Asks for what is new while anybody has room for it, until the browser ends.
    pub async fn follow(&self, view: &View) -> Failure {
        loop {
            let whole = self.appetite().await;
            let asked = view.watch(whole);
            tokio::pin!(asked);
            let seen = loop {
                tokio::select! {
                    seen = &mut asked => break Some(seen),
                    // Somebody wants all of it now, and the next request ends this one.
                    () = self.wanted.notified() => if self.wants_whole() { break None },
                }
            };
            match seen {
                Some(Ok(seen)) => self.show(seen),
                Some(Err(failure)) => return failure,
                None => {}
            }
        }
    }

    /// Waits until somebody has room. Answers whether a whole picture is wanted.
    async fn appetite(&self) -> bool {
        loop {
            let wanted = self.wanted.notified();
            if let Some(whole) = self.with(|hunger| (hunger.viewers > 0).then(|| std::mem::take(&mut hunger.whole))) {
                return whole;
            }
            wanted.await;
        }
    }

    fn wants_whole(&self) -> bool {
        self.with(|hunger| hunger.viewers > 0 && hunger.whole)
    }

    fn show(&self, seen: host::LiveEvent) {
        if seen.page.is_some() || seen.asked.is_some() {
            self.words.send_modify(|words| words.change(seen.page, seen.asked));
        }
        let Some(picture) = seen.picture else { return };
        // What somebody has made of the host is no picture.
        let Ok(jpeg) = STANDARD.decode(&picture.jpeg) else { return };
        let host::Picture { seq, base, sharp, view, rect, taken_us, .. } = picture;
        let message = Picture { seq, base, sharp, view, rect, taken_us }.write(&jpeg);
        self.picture.send_replace(Some(LatestFrame { seq, base, message }));
    }

    /// The newest picture, from now on.
    pub fn newest(&self) -> watch::Receiver<Option<LatestFrame>> {
        self.picture.subscribe()
    }

    /// The newest words, the present ones included.
    pub fn words(&self) -> watch::Receiver<PageTexts> {
        let mut words = self.words.subscribe();
        words.mark_changed();
        words
    }

    /// Whether the page waits for an answer.
    pub fn asks(&self) -> bool {
        self.words.borrow().asks
    }

    /// A viewer that has room for nothing yet.
    pub fn appetite_of_one(&self) -> FrameBudget<'_> {
        FrameBudget { pictures: self, has_room: false }
    }

    fn with<T>(&self, change: impl FnOnce(&mut FrameDemand) -> T) -> T {
        change(&mut self.hunger.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One viewer's room for pictures, which goes with it.
pub struct FrameBudget<'a> {
    pictures: &'a Pictures,
    has_room: bool,
}

impl FrameBudget<'_> {
    /// It has room for a picture: for a `whole` one, when it lacks what a part would be drawn over.
    pub fn has_room(&mut self, whole: bool) {
        self.pictures.with(|hunger| {
            hunger.viewers += u32::from(!self.has_room);
            hunger.whole |= whole;
        });
        self.has_room = true;
        self.pictures.wanted.notify_one();
    }

    /// It has no room.
    pub fn is_full(&mut self) {
        self.pictures.with(|hunger| hunger.viewers -= u32::from(self.has_room));
        self.has_room = false;
    }
}

impl Drop for FrameBudget<'_> {
    fn drop(&mut self) {
        self.is_full();
    }
}

impl PageTexts {
    fn change(&mut self, page: Option<host::PageInfo>, asked: Option<host::DialogRequest>) {
        if let Some(host::PageInfo { uri, title }) = page {
            self.page = Some(ToViewer::Page { url: uri, title });
        }
        if let Some(host::DialogRequest { menu, dialog }) = asked {
            self.asks = menu.is_some() || dialog.is_some();
            let items = menu.map(|items| items.into_iter().map(item).collect());
            self.menu = Some(ToViewer::Menu { items });
            self.dialog = Some(ToViewer::Dialog { dialog: dialog.map(of_page) });
        }
    }
}

fn item(host::MenuItem { label, enabled, selected, group }: host::MenuItem) -> MenuItem {
    MenuItem { label, enabled, selected, group }
}

fn of_page(host::Dialog { kind, message, default }: host::Dialog) -> Dialog {
    let kind = match kind {
        host::DialogKind::Alert => DialogKind::Alert,
        host::DialogKind::Confirm => DialogKind::Confirm,
        host::DialogKind::Prompt => DialogKind::Prompt,
        host::DialogKind::BeforeUnload => DialogKind::BeforeUnload,
    };
    Dialog { kind, message, default }
}
