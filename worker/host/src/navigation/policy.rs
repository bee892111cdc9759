//! Policy for loads of pages.

use std::rc::Rc;

use gtk::prelude::*;
use webkit2gtk::{
    NavigationPolicyDecision, NavigationPolicyDecisionExt, NavigationType, PolicyDecision, PolicyDecisionExt,
    PolicyDecisionType, ResponsePolicyDecision, ResponsePolicyDecisionExt, URIRequestExt, URIResponseExt,
};

use super::{DOWNLOAD, LoadStage, LoadTarget, LoadTrigger, NO_DOCUMENT, Navigation, arrived, same};
use crate::browser::Browser;
use crate::submissions::{self, Attempt};

/// Reason for the rejection of a submission.
const HELD: &str = "the page has no approval to submit a form";

/// Reason for the rejection of other loads while a page is being left.
const LEFT: &str = "the page is being left";

/// Allows loads from the web, and rejects addresses of this machine. Returns whether the decision was made here.
pub fn decide(browser: &Rc<Browser>, decision: &PolicyDecision, kind: PolicyDecisionType) -> bool {
    let refusal = if kind == PolicyDecisionType::Response {
        decision.downcast_ref().and_then(|response| weigh_response(browser, response))
    } else {
        let is_for_new_window = kind == PolicyDecisionType::NewWindowAction;
        decision.downcast_ref().and_then(|request| weigh_request(browser, request, is_for_new_window))
    };
    let Some(refusal) = refusal else { return false };
    browser.navigation.refusal.replace(Some(refusal));
    decision.ignore();
    true
}

fn weigh_request(
    browser: &Rc<Browser>,
    decision: &NavigationPolicyDecision,
    is_for_new_window: bool,
) -> Option<&'static str> {
    let mut action = decision.navigation_action()?;
    let request = action.request()?;
    let uri = request.uri()?;
    let is_own_repeat = browser.navigation.is_repeating(action.navigation_type());
    let attempt = Attempt { action: &mut action, request: &request, is_for_new_window, is_own_repeat };
    if submissions::stops(browser, attempt) {
        if is_own_repeat {
            stay(browser);
        } else if let Some(departure) = &mut *browser.navigation.departure.borrow_mut() {
            departure.hindered = true;
        }
        return Some(HELD);
    }
    let is_revisit = action.navigation_type() == NavigationType::BackForward;
    if !is_on_the_way(&browser.navigation, &uri, action.is_redirect(), is_revisit) {
        return Some(LEFT);
    }
    let scheme = uri.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let allowed = matches!(scheme.as_str(), "http" | "https" | "about" | "data" | "blob");
    if !allowed {
        browser.navigation.judge_refused();
    }
    (!allowed).then_some("the page leads to an address that is neither http nor https")
}

/// Ends a command's load without leaving the current page.
fn stay(browser: &Rc<Browser>) {
    let navigation = &browser.navigation;
    if navigation.departure.take().is_some() {
        navigation.keep_document();
        navigation.reply(Ok(arrived(browser)));
    }
}

/// True when no command's load is pending, or this load belongs to it.
fn is_on_the_way(navigation: &Navigation, uri: &str, is_redirect: bool, is_revisit: bool) -> bool {
    let mut departure = navigation.departure.borrow_mut();
    let Some(departure) = &mut *departure else { return true };
    let is_own = same(&departure.uri, uri);
    match navigation.stage.get() {
        LoadStage::Requested if is_own => navigation.stage.set(LoadStage::Allowed),
        LoadStage::Allowed | LoadStage::Started if is_redirect => uri.clone_into(&mut departure.uri),
        _ => {}
    }
    // A move in the history may load only a frame.
    let belongs = is_own || is_redirect || (is_revisit && matches!(departure.by, LoadTrigger::History(_)));
    departure.hindered |= !belongs;
    belongs
}

fn is_attachment(decision: &ResponsePolicyDecision) -> bool {
    let headers = decision.response().and_then(|response| response.http_headers());
    let disposition = headers.and_then(|headers| headers.one("Content-Disposition"));
    disposition.is_some_and(|disposition| disposition.trim_start().to_ascii_lowercase().starts_with("attachment"))
}

fn weigh_response(browser: &Rc<Browser>, decision: &ResponsePolicyDecision) -> Option<&'static str> {
    // WebKit would save an attachment to a file, whatever its type is.
    let is_supported = decision.is_mime_type_supported() && !is_attachment(decision);
    if decision.is_main_frame_main_resource() {
        let navigation = &browser.navigation;
        let status = decision.response().and_then(|response| u16::try_from(response.status_code()).ok());
        let status = status.unwrap_or_default();
        navigation.status.set(status);
        if let Some(uri) = decision.request().and_then(|request| request.uri()) {
            let is_page = is_supported && !matches!(status, 204 | 205 | 304);
            navigation.judge_answered(&uri, if is_page { LoadTarget::Page } else { LoadTarget::NoPage });
        }
        // WebKit would show an empty page. The answer to a request that it has validated itself has the status of the page.
        if status == 304 {
            return Some(NO_DOCUMENT);
        }
    }
    (!is_supported).then_some(DOWNLOAD)
}
