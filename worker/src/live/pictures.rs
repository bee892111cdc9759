//! Pictures and page state for the viewers of a session. The newest picture is encoded once for all viewers.

use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kitfleet_host_protocol as host;
use kitfleet_live::messages::{Dialog, DialogKind, MenuItem, ToViewer};
use kitfleet_live::pictures::Picture;
use kitfleet_types::operations::Failure;
use tokio::sync::{Notify, watch};

use crate::browser::View;

/// Unacknowledged pictures of a viewer (contract: live 3).
pub const MAX_IN_FLIGHT: usize = 2;

pub struct Pictures {
    picture: watch::Sender<Option<LatestFrame>>,
    texts: watch::Sender<PageTexts>,
    wanted: Notify,
    demand: Mutex<FrameDemand>,
}

#[derive(Clone)]
pub struct LatestFrame {
    pub seq: u32,
    /// Picture that it is drawn over. 0 for none.
    pub base: u32,
    pub message: Bytes,
}

#[derive(Clone, Default)]
pub struct PageTexts {
    pub page: Option<ToViewer>,
    /// For viewers who may act.
    pub menu: Option<ToViewer>,
    /// For viewers who may act.
    pub dialog: Option<ToViewer>,
    /// True when the page waits for an answer.
    pub asks: bool,
}

/// Viewers with room for a picture. `whole` is set when one of them lacks the base of a partial picture.
#[derive(Default)]
struct FrameDemand {
    viewers: u32,
    whole: bool,
}

impl Default for Pictures {
    fn default() -> Self {
        Self {
            picture: watch::Sender::new(None),
            texts: watch::Sender::new(PageTexts::default()),
            wanted: Notify::new(),
            demand: Mutex::default(),
        }
    }
}

impl Pictures {
    /// While a viewer has room for changes, until the browser ends.
    pub async fn follow(&self, view: &View) -> Failure {
        loop {
            let whole = self.wait_for_demand().await;
            let asked = view.watch(whole);
            tokio::pin!(asked);
            let seen = loop {
                tokio::select! {
                    seen = &mut asked => break Some(seen),
                    // A complete picture is wanted now, and the next request ends this one.
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

    /// A viewer has room. Returns whether a complete picture is wanted.
    async fn wait_for_demand(&self) -> bool {
        loop {
            let wanted = self.wanted.notified();
            if let Some(whole) = self.with(|demand| (demand.viewers > 0).then(|| std::mem::take(&mut demand.whole))) {
                return whole;
            }
            wanted.await;
        }
    }

    fn wants_whole(&self) -> bool {
        self.with(|demand| demand.viewers > 0 && demand.whole)
    }

    fn show(&self, seen: host::LiveEvent) {
        if seen.page.is_some() || seen.asked.is_some() {
            self.texts.send_modify(|texts| texts.change(seen.page, seen.asked));
        }
        let Some(picture) = seen.picture else { return };
        // A compromised host may send invalid base64.
        let Ok(jpeg) = STANDARD.decode(&picture.jpeg) else { return };
        let host::Picture { seq, base, sharp, view, rect, taken_us, .. } = picture;
        let message = Picture { seq, base, sharp, view, rect, taken_us }.write(&jpeg);
        self.picture.send_replace(Some(LatestFrame { seq, base, message }));
    }

    pub fn newest(&self) -> watch::Receiver<Option<LatestFrame>> {
        self.picture.subscribe()
    }

    /// Starts with the current one.
    pub fn texts(&self) -> watch::Receiver<PageTexts> {
        let mut texts = self.texts.subscribe();
        texts.mark_changed();
        texts
    }

    pub fn asks(&self) -> bool {
        self.texts.borrow().asks
    }

    /// Registers a viewer, which has no room yet.
    pub fn register_viewer(&self) -> FrameBudget<'_> {
        FrameBudget { pictures: self, has_room: false }
    }

    fn with<T>(&self, change: impl FnOnce(&mut FrameDemand) -> T) -> T {
        change(&mut self.demand.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Dropping it removes the viewer.
pub struct FrameBudget<'a> {
    pictures: &'a Pictures,
    has_room: bool,
}

impl FrameBudget<'_> {
    /// For a `whole` picture if the viewer lacks the base of a partial one.
    pub fn has_room(&mut self, whole: bool) {
        self.pictures.with(|demand| {
            demand.viewers += u32::from(!self.has_room);
            demand.whole |= whole;
        });
        self.has_room = true;
        self.pictures.wanted.notify_one();
    }

    pub fn is_full(&mut self) {
        self.pictures.with(|demand| demand.viewers -= u32::from(self.has_room));
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
