//! Input of a person, who sees its effects, so no reply waits for the page.
//!
//! WebKit has one queue for keys and one for touches. Texts have no queue: a text would overtake the keys before it, and keys
//! and texts would overtake the tap that sets the focus. Input of another kind than the pending input therefore waits here.

use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use kitfleet_host_protocol::{HostError, SubmissionRule, TouchPhase, ViewerAction};
use webkit2gtk::WebViewExt;

use super::asked;
use super::state::{Kind, NextInput, SentInput};
use crate::browser::Browser;
use crate::{acknowledgement, dialogs, keys, submissions, touch};

/// An operation's finger has another number, so that WebKit does not mix them up.
const FIRST_FINGER: usize = 16;

/// A person may send as many in 1 s.
const MAX_WAITING: usize = 1_000;

/// The page may still open a dialog while it has not handled all input.
const PATIENCE: Duration = Duration::from_secs(3);

/// The same limit when the claim on the session is released.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Interval of the checks for an open dialog meanwhile.
const DIALOG_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Returns whether the page answers. If not, further input is dropped, because it would take effect long after the person has
/// seen the page hang.
pub fn act(browser: &Rc<Browser>, acts: Vec<ViewerAction>) -> Result<bool, HostError> {
    for act in &acts {
        if let ViewerAction::Key { key } = act {
            keys::check(key)?;
        }
    }
    let waiting = &browser.live.held_input.waiting;
    let mut answers = true;
    for act in acts {
        let next = match act {
            ViewerAction::Choose { index } => {
                asked::choose(browser, index);
                continue;
            }
            ViewerAction::Answer { accept, text } => {
                dialogs::answer(browser, accept, text.as_deref());
                continue;
            }
            ViewerAction::Touch { finger, phase, x, y } => {
                NextInput::Touch { finger: FIRST_FINGER + usize::from(finger), phase, place: (x, y) }
            }
            ViewerAction::Key { key } => NextInput::Key(key),
            ViewerAction::Text { text } => NextInput::Text(text),
        };
        // A touch that has begun is always ended.
        answers = next.ends() || answers_soon(browser);
        if !answers {
            break;
        }
        waiting.borrow_mut().push_back(next);
    }
    continue_input(browser)?;
    Ok(answers)
}

fn answers_soon(browser: &Browser) -> bool {
    browser.live.held_input.waiting.borrow().len() < MAX_WAITING
        && (asked::is_open(browser) || browser.pages.active().view.is_web_process_responsive())
}

/// At the end all waiting input is sent to the page, before the input of an operation.
pub async fn lend(browser: &Rc<Browser>, lend: bool) -> Result<(), HostError> {
    if !lend {
        wait_until_handled(browser, LAST_PATIENCE).await?;
        browser.live.held_input.waiting.take().into_iter().try_for_each(|next| send(browser, next))?;
    }
    asked::lend(browser, lend);
    browser.recording.pause(lend);
    if lend {
        // The rule for an agent's messages does not apply to a person.
        submissions::follow(browser, SubmissionRule::AllowAll, false).await;
    }
    Ok(())
}

/// Ends at a dialog, a menu or a limit too. Returns whether nothing is open.
pub async fn finish(browser: &Rc<Browser>) -> Result<bool, HostError> {
    wait_until_handled(browser, PATIENCE).await?;
    Ok(!asked::is_open(browser))
}

async fn wait_until_handled(browser: &Rc<Browser>, patience: Duration) -> Result<(), HostError> {
    let (acknowledge, mut handled) = oneshot::channel();
    browser.live.held_input.waiting.borrow_mut().push_back(NextInput::Acknowledge(acknowledge));
    continue_input(browser)?;
    let began = Instant::now();
    while !asked::is_open(browser) && began.elapsed() < patience {
        if let Either::Left(_) = select(&mut handled, glib::timeout_future(DIALOG_CHECK_INTERVAL)).await {
            break;
        }
    }
    Ok(())
}

/// The page may be closed.
fn page_for(browser: &Browser, next: &NextInput) -> u32 {
    browser.live.held_input.touched_page(next).unwrap_or_else(|| browser.pages.active().id)
}

fn continue_input(browser: &Rc<Browser>) -> Result<(), HostError> {
    let held_input = &browser.live.held_input;
    while !held_input.is_awaited.get() {
        let Some(next) = held_input.waiting.borrow_mut().pop_front() else { break };
        let page = page_for(browser, &next);
        let overtakes = |sent: &SentInput| next.kind() != Some(sent.kind) || sent.page != page;
        if held_input.sent.borrow().as_ref().is_some_and(overtakes) {
            held_input.waiting.borrow_mut().push_front(next);
            held_input.is_awaited.set(true);
            glib::MainContext::default().spawn_local(settle(browser.clone()));
        } else {
            send(browser, next)?;
        }
    }
    Ok(())
}

/// The page has handled the last sent input, or sends no reports.
async fn settle(browser: Rc<Browser>) {
    let held_input = &browser.live.held_input;
    let sent = held_input.sent.take();
    if let Some(SentInput { page, kind, reports }) = sent
        && let Ok(page) = browser.pages.find(page)
    {
        acknowledgement::wait(&page, |come| kind.reports(come), reports).await;
        if kind == Kind::Touch {
            acknowledgement::await_click(&page).await;
        }
    }
    held_input.is_awaited.set(false);
    // An error means that the browser has ended, which its worker detects.
    let _ = continue_input(&browser);
}

fn send(browser: &Rc<Browser>, next: NextInput) -> Result<(), HostError> {
    let held_input = &browser.live.held_input;
    let kind = next.kind();
    let Ok(page) = browser.pages.find(page_for(browser, &next)) else {
        // The page has closed itself during the touch.
        if let NextInput::Touch { finger, .. } = next {
            held_input.touched.borrow_mut().remove(&finger);
        }
        return Ok(());
    };
    let reports = match next {
        NextInput::Touch { finger, phase, place } => {
            match phase {
                TouchPhase::Begin => held_input.touched.borrow_mut().insert(finger, page.id),
                TouchPhase::Update => None,
                TouchPhase::End | TouchPhase::Cancel => held_input.touched.borrow_mut().remove(&finger),
            };
            touch::send(&page, finger, phase, place)?;
            // Two reports: the finger was lifted, and it clicked or the page prevented the click.
            if phase == TouchPhase::End { 2 } else { 0 }
        }
        NextInput::Key(key) => keys::strike(&page, &key)?,
        NextInput::Text(text) => {
            page.view.execute_editing_command_with_argument("InsertText", &text);
            0
        }
        NextInput::Acknowledge(acknowledge) => {
            // The receiver may have been dropped.
            let _ = acknowledge.send(());
            0
        }
    };
    if let Some(kind) = kind.filter(|_| reports > 0) {
        let come = kind.reports(&page.acknowledgements);
        let mut sent = held_input.sent.borrow_mut();
        let is_same = |sent: &&SentInput| sent.kind == kind && sent.page == page.id;
        let before = sent.as_ref().filter(is_same).map_or(come, |sent| sent.reports.max(come));
        *sent = Some(SentInput { page: page.id, kind, reports: before + reports });
    }
    Ok(())
}
