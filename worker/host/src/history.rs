//! Moving in the history, and reloading.

use std::rc::Rc;

use kitfleet_host_protocol::{Direction, HostError, Navigated};
use url::Url;
use webkit2gtk::{BackForwardListExt, BackForwardListItem, BackForwardListItemExt, WebViewExt};

use crate::browser::Page;
use crate::navigation;
use crate::navigation::decisions;
use crate::navigation::state::LoadTrigger;

/// It does not belong to the session of the host.
const START: &str = "about:blank";

/// Waits until the page has loaded.
pub async fn go(page: &Rc<Page>, direction: Direction) -> Result<Navigated, HostError> {
    let (item, target) = neighbor(page, direction).ok_or(HostError::Nowhere)?;
    let from = page.view.back_forward_list().and_then(|list| list.current_item());
    let arrived = navigation::revisit(page, target, LoadTrigger::History(item.clone())).await;
    // After a rejected load WebKit considers the frame as moved, and would go one page too far the next time.
    if (page.browser.submissions.has_stopped_own() || (arrived.is_ok() && page.navigation.has_missed()))
        && page.is_at(&item)
        && let Some(from) = from
    {
        page.view.go_to_back_forward_list_item(&from);
        decisions::wait_for_decision(page).await;
    }
    arrived
}

/// Waits until the page has loaded.
pub async fn reload(page: &Rc<Page>) -> Result<Navigated, HostError> {
    let address = page.address().filter(|_| page.navigation.has_begun());
    let target = address.and_then(|address| Url::parse(&address).ok()).ok_or(HostError::Nowhere)?;
    navigation::revisit(page, target, LoadTrigger::Reload).await
}

fn neighbor(page: &Page, direction: Direction) -> Option<(BackForwardListItem, Url)> {
    let list = page.view.back_forward_list()?;
    let item = match direction {
        Direction::Back => list.back_item(),
        Direction::Forward => list.forward_item(),
    }?;
    let address = item.uri()?;
    let is_start = address == START && list.nth_item(-2).is_none();
    let target = Url::parse(&address).ok().filter(|_| !is_start)?;
    Some((item, target))
}
