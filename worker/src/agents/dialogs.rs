//! Dialogs, pages and downloads of a turn (contract: agents 48 to 53). A dialog's message is text of the page.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use kitfleet_domain::agents::steps::{Step, describe_page};
use kitfleet_domain::agents::turns::{TurnDownload, TurnTexts};
use kitfleet_jobs::dispatch::DispatchOutcome;
use kitfleet_types::commands::PageQuery;
use kitfleet_types::ids::IntentId;
use kitfleet_types::operations::{
    Action, AnsweredDialog, BrowserPage, BrowserPages, Candidate, DialogType, Interact, Interacted, ListPages,
    MAX_CANDIDATES, Match, OnTimeout, OpenDialog, Operation, Refusal, StoredResult, locate,
};
use serde::Deserialize;
use serde_json::Value;

use super::step_outcomes::{LocatedElement, StepOutcome, changed, unclear};
use super::{CLAIMS_WITHIN, RunningTurn};
use crate::browser::OperationEnd;

/// Alerts that the turn closes for one operation or one read.
pub(super) const MAX_ALERTS: usize = 20;
/// Dialogs, and downloads, that a turn lists.
const MAX_LISTED: usize = 20;
const SHOWN_CHARS: usize = 200;

#[derive(Debug, Default)]
pub(super) struct TurnDialogs {
    answered: Vec<AnsweredDialog>,
    /// Open when the turn last heard of the page.
    pub(super) open: Option<OpenDialog>,
}

impl RunningTurn<'_> {
    pub(super) fn dialogs(&self) -> MutexGuard<'_, TurnDialogs> {
        self.dialogs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note_dialogs(&self, result: &StoredResult) {
        #[derive(Deserialize)]
        struct Shown {
            #[serde(default)]
            dialogs: Vec<AnsweredDialog>,
            #[serde(default)]
            dialog: Option<OpenDialog>,
        }
        let Ok(Shown { dialogs, dialog }) = result.read::<Shown>() else { return };
        let mut noted = self.dialogs();
        let room = MAX_LISTED.saturating_sub(noted.answered.len());
        noted.answered.extend(dialogs.into_iter().take(room));
        noted.open = dialog;
    }

    /// An alert has only one answer.
    pub(super) async fn close_alert(&self) -> sqlx::Result<()> {
        let action = Action::Dialog { accept: true, text: None };
        let Ok(close) = Interact::parse(action, None, OnTimeout::Return, &self.context.config.limits) else {
            return Ok(());
        };
        let close = Operation::Interact(Interact { hold_submissions: true, ..close });
        if let Ok(DispatchOutcome::Ended(ending, _)) = self.dispatch(IntentId::generate(), &close).await?
            && let Some(result) = &ending.result
        {
            self.note_dialogs(result);
            let held = result.read::<Interacted>().is_ok_and(|closed| closed.submission_held);
            self.page_held.fetch_or(held, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The inner error is the outcome of a step when the browser does not answer.
    pub(super) async fn open_dialog(&self) -> Result<Option<OpenDialog>, &'static str> {
        // The list of pages is refused while a dialog is open, and does not ask a page.
        let list = Operation::ListPages(ListPages { session: self.waiting.driver });
        match self.context.sessions.read_page(self.waiting.driver, list, CLAIMS_WITHIN).await {
            Some(OperationEnd::Refused(Refusal::DialogOpen { dialog })) => Ok(dialog),
            Some(OperationEnd::Done(_)) => Ok(None),
            _ => Err("the page cannot be read: its browser has failed, is busy, or is gone"),
        }
    }

    /// An approved step must find the dialog that was shown.
    pub(super) async fn find_dialog(&self, step: &Step, approved: bool) -> LocatedElement {
        let dialog = match self.open_dialog().await {
            Ok(Some(dialog)) => dialog,
            Ok(None) => {
                return unclear("the page shows no dialog. One that is not answered is dismissed after a minute.");
            }
            Err(why) => return LocatedElement::Not(StepOutcome::Stopped(why)),
        };
        let found = match_of_dialog(&dialog);
        self.dialogs().open = Some(dialog);
        let is_shown = step.shown.first().is_some_and(|shown| shown.fingerprint == found.fingerprint);
        if approved && !is_shown {
            return changed();
        }
        LocatedElement::Them(vec![found], String::new())
    }

    /// The active page if `query` is `None`. An approved step must find the page that was shown.
    pub(super) async fn find_page(
        &self,
        step: &Step,
        query: Option<&PageQuery>,
        approved: bool,
    ) -> sqlx::Result<LocatedElement> {
        let list = Operation::ListPages(ListPages { session: self.waiting.driver });
        let BrowserPages { data: pages } = match self.read(list).await? {
            Ok(result) => result.read().map_err(|error| sqlx::Error::Decode(error.into()))?,
            Err(outcome) => return Ok(LocatedElement::Not(outcome)),
        };
        let shown = step.shown.first().filter(|_| approved);
        let is_it = |page: &BrowserPage| match (shown, query) {
            (Some(shown), _) => page.id.to_string() == shown.selector,
            (None, Some(PageQuery::Id(id))) => page.id == *id,
            (None, Some(PageQuery::Other)) => !page.active,
            (None, Some(PageQuery::Words(words))) => is_called(page, words),
            (None, None) => page.active,
        };
        let found: Vec<_> = pages.iter().enumerate().filter(|&(_, page)| is_it(page)).collect();
        Ok(match found[..] {
            [(at, page)] => LocatedElement::Them(vec![match_of_page(at, page)], String::new()),
            [] if shown.is_some() => changed(),
            [] => {
                let what = query.map_or_else(|| "this page".to_owned(), describe_page);
                unclear(format!("the browser has no such page ({what}). It has {} in all.", pages.len()))
            }
            _ => {
                let one = |(at, page): &(usize, &BrowserPage)| {
                    let Match { description, selector, .. } = match_of_page(*at, page);
                    Candidate { description, selector }
                };
                let candidates = found.iter().take(MAX_CANDIDATES).map(one).collect();
                let reply = "several pages of the browser are meant; name one by its title or address.".to_owned();
                LocatedElement::Not(StepOutcome::Unclear { reply, candidates })
            }
        })
    }

    /// Downloads and dialogs of the turn's pages.
    pub(super) async fn add_page_activity(&self, texts: &mut TurnTexts) {
        let TurnDialogs { answered, open } = std::mem::take(&mut *self.dialogs());
        texts.dialogs = answered;
        texts.dialog = open;
        let Some(files) = self.context.sessions.live_handle(self.waiting.driver).map(|live_handle| live_handle.files)
        else {
            return;
        };
        // A browser that does not answer has ended.
        let downloads = files.downloads().await.unwrap_or_default();
        let begun = downloads.into_iter().filter(|download| download.created_at >= self.began);
        texts.downloads = begun
            .take(MAX_LISTED)
            .map(|download| TurnDownload {
                id: download.id,
                file_name: download.file_name.as_str().to_owned(),
                bytes: download.bytes,
                status: download.status,
            })
            .collect();
    }
}

fn is_called(page: &BrowserPage, words: &str) -> bool {
    let words = words.trim().to_lowercase();
    let title = page.title.as_deref().unwrap_or_default().to_lowercase();
    title.contains(&words) || page.url.to_lowercase().contains(&words)
}

fn match_of_page(at: usize, page: &BrowserPage) -> Match {
    let title = page.title.as_deref().filter(|title| !title.trim().is_empty()).unwrap_or(&page.url);
    let active = if page.active { ", the active one" } else { "" };
    Match {
        selector: page.id.to_string(),
        description: format!("page {}{active}", quoted(title)),
        fingerprint: (at + 1).to_string(),
        ..nothing("document")
    }
}

fn match_of_dialog(dialog: &OpenDialog) -> Match {
    let OpenDialog { kind, message, default_value } = dialog;
    let traits = [kind.name().to_owned(), message.clone(), default_value.clone().unwrap_or_default()];
    Match {
        description: describe_dialog(dialog),
        name: message.clone(),
        submits: matches!(kind, DialogType::Confirm | DialogType::BeforeUnload),
        fingerprint: locate::fingerprint(&traits),
        ..nothing("dialog")
    }
}

pub(super) fn describe_dialog(dialog: &OpenDialog) -> String {
    format!("{} dialog {}", dialog.kind.name(), quoted(&dialog.message))
}

/// The beginning, on one line and in quotation marks.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text.chars().take(SHOWN_CHARS).collect::<String>()).to_string()
}

fn nothing(role: &str) -> Match {
    Match {
        selector: String::new(),
        description: String::new(),
        role: role.to_owned(),
        name: String::new(),
        text: String::new(),
        submits: false,
        form_field: false,
        checked: None,
        fingerprint: String::new(),
        size: [0; 2],
    }
}
