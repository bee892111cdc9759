//! Held dialog of a browser, and the dialogs that its pages have shown.

use std::cell::{Cell, RefCell};

use futures_channel::oneshot;
use kitfleet_host_protocol::{Dialog, DialogKind, DialogPolicy, MAX_SHOWN_DIALOGS, ShownDialog};
use webkit2gtk::ScriptDialog;

#[derive(Default)]
pub struct Dialogs {
    pub(super) policy: Cell<DialogPolicy>,
    /// True while a person sends input, and answers dialogs.
    pub(super) person: Cell<bool>,
    /// Nothing is held any more.
    pub(super) leaving: Cell<bool>,
    pub(super) held: RefCell<Option<HeldDialog>>,
    shown: RefCell<Vec<ShownDialog>>,
    pub(super) waiting: RefCell<Vec<oneshot::Sender<()>>>,
    pub(super) timer: RefCell<Option<glib::SourceId>>,
}

pub(super) struct HeldDialog {
    pub(super) dialog: ScriptDialog,
    pub(super) description: Dialog,
    pub(super) page: u32,
}

impl Dialogs {
    pub fn set_policy(&self, policy: DialogPolicy) {
        self.policy.set(policy);
    }

    pub fn open(&self) -> Option<Dialog> {
        self.held.borrow().as_ref().map(|held| held.description.clone())
    }

    pub fn is_open(&self) -> bool {
        self.held.borrow().is_some()
    }

    /// Scripts of the host fail.
    pub fn is_blocking(&self) -> bool {
        self.is_open() && !self.person.get()
    }

    /// Shown since the last call.
    pub fn take_shown(&self) -> Vec<ShownDialog> {
        self.shown.take()
    }

    pub(super) fn note(&self, dialog: ShownDialog) {
        let mut shown = self.shown.borrow_mut();
        if shown.len() < MAX_SHOWN_DIALOGS {
            shown.push(dialog);
        }
    }

    pub(super) fn stop_timer(&self) {
        if let Some(timer) = self.timer.take() {
            timer.remove();
        }
    }

    pub(super) fn accepts(&self, kind: DialogKind) -> bool {
        kind == DialogKind::BeforeUnload || (self.policy.get() == DialogPolicy::Accept && !self.leaving.get())
    }
    /// Waits until a dialog blocks the scripts of the host.
    pub async fn wait_for_held(&self) {
        while !self.is_blocking() {
            let (sender, receiver) = oneshot::channel();
            {
                let mut waiting = self.waiting.borrow_mut();
                waiting.retain(|sender| !sender.is_canceled());
                waiting.push(sender);
            }
            // The sender is dropped when a dialog is held.
            let _ = receiver.await;
        }
    }

    pub async fn next(&self) -> Dialog {
        loop {
            self.wait_for_held().await;
            if let Some(dialog) = self.open() {
                return dialog;
            }
        }
    }
}
