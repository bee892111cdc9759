//! The page's process waits inside the call, so that no page of this process runs a script, paints, or answers. A dialog
//! is answered at once by the policy, or held for an answer: of the worker, or of a person who sends input. While one is
//! held, scripts of the host fail instead of waiting, unless a person is to answer.

pub mod state;

use std::rc::Rc;
use std::time::Duration;

use kitfleet_host_protocol::{DIALOG_HELD_SECS, Dialog, DialogKind, DialogPolicy, PageEventBody, ShownDialog};
use webkit2gtk::{ScriptDialog, ScriptDialogType, WebViewExt};

use self::state::HeldDialog;
use crate::browser::{Browser, Page};
use crate::failure::truncate_message;

pub fn open(page: &Rc<Page>, dialog: &ScriptDialog) {
    let browser = &page.browser;
    let dialogs = &browser.dialogs;
    let description = describe(dialog);
    let waits = (dialogs.person.get() || dialogs.policy.get() == DialogPolicy::Hold) && !dialogs.leaving.get();
    // A second dialog is that of another process.
    if !waits || dialogs.is_open() || page.is_closed() {
        let accept = dialogs.accepts(description.kind);
        give(dialog, &description, accept, None);
        note(browser, description, accept);
        return;
    }
    browser.recording.note(PageEventBody::DialogOpened(description.clone()));
    dialogs.held.replace(Some(HeldDialog { dialog: dialog.clone(), description, page: page.id }));
    if !dialogs.person.get() {
        hold_for_worker(browser);
    }
    browser.live.request_again();
}

fn note(browser: &Browser, description: Dialog, accepted: bool) {
    let Dialog { kind, message, default } = description;
    let shown = ShownDialog { kind, message, default, accepted };
    browser.recording.note(PageEventBody::DialogAnswered(shown.clone()));
    browser.dialogs.note(shown);
}

/// Notifies the waiters, and limits the time of the held dialog.
fn hold_for_worker(browser: &Rc<Browser>) {
    let dialogs = &browser.dialogs;
    dialogs.stop_timer();
    let weak = Rc::downgrade(browser);
    let timer = glib::timeout_add_local_once(Duration::from_secs(DIALOG_HELD_SECS), move || {
        if let Some(browser) = weak.upgrade() {
            // The source has removed itself from the main loop.
            browser.dialogs.timer.take();
            answer(&browser, false, None);
        }
    });
    dialogs.timer.replace(Some(timer));
    dialogs.waiting.take();
}

/// Returns whether a dialog was held.
pub fn answer(browser: &Rc<Browser>, accept: bool, text: Option<&str>) -> bool {
    let Some(held) = browser.dialogs.held.take() else { return false };
    browser.dialogs.stop_timer();
    let HeldDialog { dialog, description, page } = held;
    give(&dialog, &description, accept, text);
    dialog.close();
    if description.kind == DialogKind::BeforeUnload
        && !accept
        && let Ok(page) = browser.pages.find(page)
    {
        page.navigation.cancel_load();
        page.view.stop_loading();
        // WebKit still reports the address of a load that a command has begun.
        page.has_stayed.set(true);
    }
    note(browser, description, accept);
    browser.live.request_again();
    true
}

pub fn forget(page: &Page) {
    let is_its = page.browser.dialogs.held.borrow().as_ref().is_some_and(|held| held.page == page.id);
    if is_its {
        answer(&page.browser, false, None);
    }
}

/// Answers the held dialog, and each later one, because the pages are being left.
pub fn leave(browser: &Rc<Browser>) {
    let dialogs = &browser.dialogs;
    dialogs.leaving.set(true);
    let kind = dialogs.open().map(|dialog| dialog.kind);
    answer(browser, kind.is_some_and(|kind| dialogs.accepts(kind)), None);
}

/// At the end, the policy answers or holds a dialog.
pub fn lend(browser: &Rc<Browser>, lend: bool) {
    let dialogs = &browser.dialogs;
    dialogs.person.set(lend);
    let Some(dialog) = dialogs.open() else { return };
    if lend {
        dialogs.stop_timer();
        browser.live.request_again();
    } else if dialogs.policy.get() == DialogPolicy::Hold {
        hold_for_worker(browser);
    } else {
        answer(browser, dialogs.accepts(dialog.kind), None);
    }
}

/// Takes effect when the dialog is closed. An accepted prompt without a text has its default.
fn give(dialog: &ScriptDialog, description: &Dialog, accept: bool, text: Option<&str>) {
    match description.kind {
        DialogKind::Prompt if accept => match text {
            // The bindings panic at a NUL.
            Some(text) => dialog.prompt_set_text(&text.replace('\0', "")),
            None => dialog.prompt_set_text(&dialog.prompt_get_default_text().unwrap_or_default()),
        },
        DialogKind::Confirm | DialogKind::BeforeUnload => dialog.confirm_set_confirmed(accept),
        DialogKind::Prompt | DialogKind::Alert => {}
    }
}

fn describe(dialog: &ScriptDialog) -> Dialog {
    let kind = match dialog.dialog_type() {
        ScriptDialogType::Confirm => DialogKind::Confirm,
        ScriptDialogType::Prompt => DialogKind::Prompt,
        ScriptDialogType::BeforeUnloadConfirm => DialogKind::BeforeUnload,
        _ => DialogKind::Alert,
    };
    let default = (kind == DialogKind::Prompt).then(|| dialog.prompt_get_default_text()).flatten();
    Dialog {
        kind,
        message: dialog.message().map(|message| truncate_message(&message)).unwrap_or_default(),
        default: default.map(|text| truncate_message(&text)),
    }
}
