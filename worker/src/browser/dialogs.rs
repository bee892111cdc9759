//! Dialogs that a browser holds open for the caller (contract: operations 45 to 49). A dialog blocks the page's process, so
//! that no command that asks the page ends before the answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending};
use kitfleet_host_protocol::{self as protocol, HostCommand};
use kitfleet_types::operations::{AnsweredDialog, DialogPolicy, DialogType, OpenDialog};
use tokio::time::{sleep, timeout};

use super::host::{CallError, HostHandle};

/// Between operations.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A page cannot delay the host's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Clones share the same state. The futures never resolve for a browser that holds no dialogs.
#[derive(Clone)]
pub struct HeldDialogs(Option<Arc<Shared>>);

struct Shared {
    line: HostHandle,
    /// Answer to the last [`HostCommand::AwaitDialog`]. It is kept when its caller is cancelled, so that the host never has
    /// more than one to answer.
    opening: Mutex<Option<Opening>>,
}

type Opening = BoxFuture<'static, Result<protocol::Dialog, CallError>>;

impl HeldDialogs {
    pub fn of(line: HostHandle, policy: DialogPolicy) -> Self {
        let holds = policy == DialogPolicy::Hold;
        Self(holds.then(|| Arc::new(Shared { line, opening: Mutex::new(None) })))
    }

    /// `None` also when the browser does not answer.
    pub async fn open(&self) -> Option<OpenDialog> {
        self.0.as_ref()?.open().await
    }

    /// Cancellation is safe.
    pub async fn opened(&self) -> OpenDialog {
        match &self.0 {
            Some(shared) => shared.opened().await,
            None => pending().await,
        }
    }

    /// Another dialog than `known`. Cancellation is safe.
    pub async fn changed(&self, known: Option<&OpenDialog>) -> Option<OpenDialog> {
        let Some(known) = known else { return Some(self.opened().await) };
        loop {
            let open = self.open().await;
            if open.as_ref() != Some(known) {
                return open;
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

impl Shared {
    async fn open(&self) -> Option<OpenDialog> {
        // An error means that the browser has ended or hangs, which its owner notices.
        let asking = self.line.call::<Option<protocol::Dialog>>(HostCommand::OpenDialog);
        timeout(ANSWER_WITHIN, asking).await.ok()?.ok()?.map(open_dialog)
    }

    async fn opened(&self) -> OpenDialog {
        loop {
            let mut opening = HeldOpening { shared: self, opening: self.lock().take() };
            let opened = opening.opening.get_or_insert_with(|| self.start()).await;
            opening.opening = None;
            if opened.is_err() {
                // The browser has ended, which its owner notices.
                return pending().await;
            }
            // The dialog may have been answered since.
            if let Some(dialog) = self.open().await {
                return dialog;
            }
        }
    }

    fn start(&self) -> Opening {
        let line = self.line.clone();
        async move { line.call(HostCommand::AwaitDialog).await }.boxed()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Opening>> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct HeldOpening<'a> {
    shared: &'a Shared,
    opening: Option<Opening>,
}

impl Drop for HeldOpening<'_> {
    fn drop(&mut self) {
        if let Some(opening) = self.opening.take() {
            *self.shared.lock() = Some(opening);
        }
    }
}

pub fn policy_for_host(policy: DialogPolicy) -> protocol::DialogPolicy {
    match policy {
        DialogPolicy::Dismiss => protocol::DialogPolicy::Dismiss,
        DialogPolicy::Accept => protocol::DialogPolicy::Accept,
        DialogPolicy::Hold => protocol::DialogPolicy::Hold,
    }
}

pub fn open_dialog(dialog: protocol::Dialog) -> OpenDialog {
    let protocol::Dialog { kind, message, default } = dialog;
    OpenDialog { kind: dialog_type(kind), message: storable(&message), default_value: default.as_deref().map(storable) }
}

pub fn answered_dialog(dialog: &protocol::ShownDialog) -> AnsweredDialog {
    AnsweredDialog { kind: dialog_type(dialog.kind), message: storable(&dialog.message), accepted: dialog.accepted }
}

fn dialog_type(kind: protocol::DialogKind) -> DialogType {
    match kind {
        protocol::DialogKind::Alert => DialogType::Alert,
        protocol::DialogKind::Confirm => DialogType::Confirm,
        protocol::DialogKind::Prompt => DialogType::Prompt,
        protocol::DialogKind::BeforeUnload => DialogType::BeforeUnload,
    }
}

/// The database stores no NUL.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "\u{FFFD}")
}
