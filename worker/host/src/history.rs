//! Moving in the history, and reloading.

use std::rc::Rc;

use kitfleet_host_protocol::{Direction, HostError, Navigated};
use url::Url;
use webkit2gtk::{BackForwardListExt, BackForwardListItem, BackForwardListItemExt, WebViewExt};

use crate::browser::Browser;
use crate::navigation::{self, LoadTrigger};

/// Initial page of a host, which does not belong to its session.
const START: &str = "about:blank";

/// Goes to a page of the history and waits until it has loaded.
pub async fn go(browser: &Rc<Browser>, direction: Direction) -> Result<Navigated, HostError> {
    let (item, target) = neighbor(browser, direction).ok_or(HostError::Nowhere)?;
    let from = browser.view.back_forward_list().and_then(|list| list.current_item());
    let arrived = navigation::revisit(browser, target, LoadTrigger::History(item.clone())).await;
    // After a rejected load WebKit considers the frame as moved, and would go one page too far the next time.
    if (browser.submissions.has_stopped_own() || (arrived.is_ok() && browser.navigation.has_missed()))
        && is_at(browser, &item)
        && let Some(from) = from
    {
        browser.view.go_to_back_forward_list_item(&from);
        navigation::give_a_moment(browser).await;
    }
    arrived
}

/// Reloads the page and waits until it has loaded.
pub async fn reload(browser: &Rc<Browser>) -> Result<Navigated, HostError> {
    let address = browser.view.uri().filter(|_| browser.navigation.has_begun());
    let target = address.and_then(|address| Url::parse(&address).ok()).ok_or(HostError::Nowhere)?;
    navigation::revisit(browser, target, LoadTrigger::Reload).await
}

fn neighbor(browser: &Browser, direction: Direction) -> Option<(BackForwardListItem, Url)> {
    let list = browser.view.back_forward_list()?;
    let item = match direction {
        Direction::Back => list.back_item(),
        Direction::Forward => list.forward_item(),
    }?;
    let address = item.uri()?;
    let is_start = address == START && list.nth_item(-2).is_none();
    let target = Url::parse(&address).ok().filter(|_| !is_start)?;
    Some((item, target))
}

/// True when this is the current item of the history.
pub fn is_at(browser: &Browser, item: &BackForwardListItem) -> bool {
    browser.view.back_forward_list().and_then(|list| list.current_item()).as_ref() == Some(item)
}
