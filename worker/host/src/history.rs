//! Going back, and loading a page once more.

use std::rc::Rc;

use kitfleet_host_protocol::{HostError, Navigated};
use url::Url;
use webkit2gtk::{BackForwardListExt, BackForwardListItem, BackForwardListItemExt, WebViewExt};

use crate::browser::Browser;
use crate::navigation::{self, Means};

/// Where a host starts, which is none of its session's pages.
const START: &str = "about:blank";

/// Goes to the page before, and waits until it has loaded.
pub async fn back(browser: &Rc<Browser>) -> Result<Navigated, HostError> {
    let (item, target) = page_before(browser).ok_or(HostError::Nowhere)?;
    let from = browser.view.back_forward_list().and_then(|list| list.current_item());
    let arrived = navigation::revisit(browser, target, Means::History(item.clone())).await;
    // WebKit believes that a frame has moved whose load was refused, and would go farther back the next time.
    if browser.submissions.has_stopped_own()
        && is_at(browser, &item)
        && let Some(from) = from
    {
        browser.view.go_to_back_forward_list_item(&from);
        navigation::give_a_moment(browser).await;
    }
    arrived
}

/// Loads the page once more, and waits until it has.
pub async fn reload(browser: &Rc<Browser>) -> Result<Navigated, HostError> {
    let address = browser.view.uri().filter(|_| browser.navigation.has_begun());
    let target = address.and_then(|address| Url::parse(&address).ok()).ok_or(HostError::Nowhere)?;
    navigation::revisit(browser, target, Means::Reload).await
}

fn page_before(browser: &Browser) -> Option<(BackForwardListItem, Url)> {
    let list = browser.view.back_forward_list()?;
    let item = list.back_item()?;
    let address = item.uri()?;
    let is_start = address == START && list.nth_item(-2).is_none();
    let target = Url::parse(&address).ok().filter(|_| !is_start)?;
    Some((item, target))
}

/// Whether the browser stands there in its history.
pub fn is_at(browser: &Browser, item: &BackForwardListItem) -> bool {
    browser.view.back_forward_list().and_then(|list| list.current_item()).as_ref() == Some(item)
}
