//! Waits for the policy decisions of loads that pages have begun.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join_all, select};

use crate::browser::{Browser, Page};
use crate::script;

/// A redirect by script begins within this time.
const SCRIPT_REDIRECT_WITHIN: Duration = Duration::from_millis(50);

/// Only a page whose main thread is busy waits as long.
const DECIDE_WITHIN: Duration = Duration::from_millis(500);

pub async fn wait_for_decision(page: &Rc<Page>) {
    // First turn: WebKit has asked for a policy decision. Second turn: it has begun the load.
    let turns = Box::pin(async {
        turn(page).await;
        let _ = script::evaluate(page, "").await;
    });
    select(turns, glib::timeout_future(SCRIPT_REDIRECT_WITHIN)).await;
}

/// A load through the history needs another round trip between the two processes, which the second turn waits for.
pub async fn wait_for_policy_decisions(page: &Rc<Page>) {
    let turns = Box::pin(async {
        turn(page).await;
        turn(page).await;
    });
    select(turns, glib::timeout_future(DECIDE_WITHIN)).await;
}

pub async fn wait_for_all_policy_decisions(browser: &Rc<Browser>) {
    let pages = browser.pages.all();
    join_all(pages.iter().map(wait_for_policy_decisions)).await;
}

async fn turn(page: &Rc<Page>) {
    // Timers of a hidden page are delayed by up to 1 s.
    let words = if page.is_active() { "await new Promise((done) => setTimeout(done))" } else { "" };
    let _ = script::evaluate(page, words).await;
}
