//! What a person does, who sees what comes of it: nobody waits for the page.
//!
//! WebKit has a queue each for keys and for fingers, in which one waits until the page has handled the one before it, and none for texts. A
//! text would overtake the keys before it, and both the tap that says where they go. So what differs from what is under way waits here.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use kitfleet_host_protocol::{HostError, SubmissionRule, TouchPhase, ViewerAction};
use webkit2gtk::WebViewExt;

use super::asked;
use crate::acknowledgement::{self, Acknowledgements};
use crate::browser::Browser;
use crate::{keys, submissions, touch};

/// Fingers of a person have other numbers than that of an operation, which WebKit would take for one of theirs.
const FIRST_FINGER: usize = 16;

/// How much may wait for a page: a second of what a person may do.
const MOST_WAITING: usize = 1_000;

/// How much longer a session is a person's for a page that has not handled all that they did: it may yet ask something.
const PATIENCE: Duration = Duration::from_secs(3);

/// The same when the session has to be given back.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// How often it is looked meanwhile whether the page asks something.
const GLANCE: Duration = Duration::from_millis(20);

/// What a person does, and the page has not handled.
#[derive(Default)]
pub struct InputQueue {
    /// What the page was sent last, if not all of it was handled.
    sent: RefCell<Option<SentInput>>,
    /// What comes after it.
    waiting: RefCell<VecDeque<NextInput>>,
    /// Whether somebody waits for the page.
    is_awaited: Cell<bool>,
}

/// What comes after all that was sent before.
enum NextInput {
    Touch {
        finger: usize,
        phase: TouchPhase,
        place: (f64, f64),
    },
    Key(String),
    Text(String),
    /// Nothing but that somebody is told so.
    Tell(oneshot::Sender<()>),
}

/// What the page has been sent of a kind.
struct SentInput {
    kind: Kind,
    /// How many reports there will be when it has handled that.
    reports: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Touch,
    Key,
}

impl NextInput {
    fn ends(&self) -> bool {
        matches!(self, Self::Touch { phase: TouchPhase::End | TouchPhase::Cancel, .. })
    }

    fn kind(&self) -> Option<Kind> {
        match self {
            Self::Touch { .. } => Some(Kind::Touch),
            Self::Key(_) => Some(Kind::Key),
            Self::Text(_) | Self::Tell(_) => None,
        }
    }
}

impl Kind {
    /// How much of it pages have handled. A finger that was lifted is handled with its click.
    fn reports(self, reports: &Acknowledgements) -> usize {
        match self {
            Self::Touch => reports.touches.get() + reports.refusals.get() + reports.clicks.get(),
            Self::Key => reports.keys.get(),
        }
    }
}

/// Does it, and says whether the page answers. When it does not, nothing more is done: what waits for a page that is stuck would be done
/// long after the person has seen it.
pub fn act(browser: &Rc<Browser>, acts: Vec<ViewerAction>) -> Result<bool, HostError> {
    for act in &acts {
        if let ViewerAction::Key { key } = act {
            keys::check(key)?;
        }
    }
    let waiting = &browser.live.hands.waiting;
    let mut answers = true;
    for act in acts {
        let next = match act {
            ViewerAction::Choose { index } => {
                asked::choose(browser, index);
                continue;
            }
            ViewerAction::Answer { accept, text } => {
                asked::answer(browser, accept, text.as_deref());
                continue;
            }
            ViewerAction::Touch { finger, phase, x, y } => {
                NextInput::Touch { finger: FIRST_FINGER + usize::from(finger), phase, place: (x, y) }
            }
            ViewerAction::Key { key } => NextInput::Key(key),
            ViewerAction::Text { text } => NextInput::Text(text),
        };
        // What was done to a page that has answered then is ended all the same.
        answers = next.ends() || answers_soon(browser);
        if !answers {
            break;
        }
        waiting.borrow_mut().push_back(next);
    }
    go_on(browser)?;
    Ok(answers)
}

fn answers_soon(browser: &Browser) -> bool {
    browser.live.hands.waiting.borrow().len() < MOST_WAITING
        && (asked::is_open(browser) || browser.view.is_web_process_responsive())
}

/// From now on a person acts, or none any more. What they did goes to the page then, before what an operation does there.
pub async fn lend(browser: &Rc<Browser>, lend: bool) -> Result<(), HostError> {
    if !lend {
        until_handled(browser, LAST_PATIENCE).await?;
        browser.live.hands.waiting.take().into_iter().try_for_each(|next| send(browser, next))?;
    }
    asked::lend(browser, lend);
    if lend {
        // What a person does is not a message's.
        submissions::follow(browser, SubmissionRule::AllowAll).await;
    }
    Ok(())
}

/// Waits until the page has handled all that was done, or asks something, or has had the time. Answers whether nothing is asked.
pub async fn rest(browser: &Rc<Browser>) -> Result<bool, HostError> {
    until_handled(browser, PATIENCE).await?;
    Ok(!asked::is_open(browser))
}

async fn until_handled(browser: &Rc<Browser>, patience: Duration) -> Result<(), HostError> {
    let (tell, mut handled) = oneshot::channel();
    browser.live.hands.waiting.borrow_mut().push_back(NextInput::Tell(tell));
    go_on(browser)?;
    let began = Instant::now();
    while !asked::is_open(browser) && began.elapsed() < patience {
        if let Either::Left(_) = select(&mut handled, glib::timeout_future(GLANCE)).await {
            break;
        }
    }
    Ok(())
}

/// Sends the page what need not wait.
fn go_on(browser: &Rc<Browser>) -> Result<(), HostError> {
    let hands = &browser.live.hands;
    while !hands.is_awaited.get() {
        let Some(next) = hands.waiting.borrow_mut().pop_front() else { break };
        if hands.sent.borrow().as_ref().is_some_and(|sent| next.kind() != Some(sent.kind)) {
            hands.waiting.borrow_mut().push_front(next);
            hands.is_awaited.set(true);
            glib::MainContext::default().spawn_local(settle(browser.clone()));
        } else {
            send(browser, next)?;
        }
    }
    Ok(())
}

/// Goes on when the page has handled what it was sent, or says nothing of it.
async fn settle(browser: Rc<Browser>) {
    let hands = &browser.live.hands;
    if let Some(SentInput { kind, reports }) = hands.sent.take() {
        acknowledgement::wait(&browser, |come| kind.reports(come), reports).await;
    }
    hands.is_awaited.set(false);
    // A browser that takes nothing more has ended, which its worker knows.
    let _ = go_on(&browser);
}

fn send(browser: &Rc<Browser>, next: NextInput) -> Result<(), HostError> {
    let kind = next.kind();
    let reports = match next {
        NextInput::Touch { finger, phase, place } => {
            touch::send(browser, finger, phase, place)?;
            // The finger was lifted, and clicked or was refused.
            if phase == TouchPhase::End { 2 } else { 0 }
        }
        NextInput::Key(key) => keys::strike(browser, &key)?,
        NextInput::Text(text) => {
            browser.view.execute_editing_command_with_argument("InsertText", &text);
            0
        }
        NextInput::Tell(tell) => {
            // Whoever asked may have waited long enough.
            let _ = tell.send(());
            0
        }
    };
    if let Some(kind) = kind.filter(|_| reports > 0) {
        let come = kind.reports(&browser.acknowledgements);
        let mut sent = browser.live.hands.sent.borrow_mut();
        let before = sent.as_ref().filter(|sent| sent.kind == kind).map_or(come, |sent| sent.reports.max(come));
        *sent = Some(SentInput { kind, reports: before + reports });
    }
    Ok(())
}
