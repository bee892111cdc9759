use std::rc::Rc;

use gtk::prelude::*;
use webkit2gtk::{
    NavigationPolicyDecision, NavigationPolicyDecisionExt, NavigationType, PolicyDecision, PolicyDecisionExt,
    PolicyDecisionType, ResponsePolicyDecision, ResponsePolicyDecisionExt, URIRequestExt, URIResponseExt,
};

use super::outcomes::arrived;
use super::state::{LoadDownload, LoadStage, LoadTarget, LoadTrigger, Navigation, same};
use crate::browser::Page;
use crate::submissions::{self, Attempt};

const NO_DOCUMENT: &str = "the response has no document";

const HELD: &str = "the page has no approval to submit a form";

const LEFT: &str = "the page is being left";

/// Rejects addresses of this machine. Returns whether the decision was made here.
pub fn decide(page: &Rc<Page>, decision: &PolicyDecision, kind: PolicyDecisionType) -> bool {
    let refusal = if kind == PolicyDecisionType::Response {
        match decision.downcast_ref().and_then(|response| weigh_response(page, response)) {
            Some(Refusal::Download) => {
                decision.download();
                return true;
            }
            Some(Refusal::Ignored(reason)) => Some(reason),
            None => None,
        }
    } else {
        let is_for_new_window = kind == PolicyDecisionType::NewWindowAction;
        decision.downcast_ref().and_then(|request| weigh_request(page, request, is_for_new_window))
    };
    let Some(refusal) = refusal else { return false };
    page.navigation.refusal.replace(Some(refusal));
    decision.ignore();
    true
}

fn weigh_request(
    page: &Rc<Page>,
    decision: &NavigationPolicyDecision,
    is_for_new_window: bool,
) -> Option<&'static str> {
    let mut action = decision.navigation_action()?;
    let request = action.request()?;
    let uri = request.uri()?;
    let is_own_repeat = page.navigation.is_repeating(action.navigation_type());
    let attempt = Attempt { action: &mut action, request: &request, is_for_new_window, is_own_repeat };
    if submissions::stops(page, attempt) {
        if is_own_repeat {
            cancel_load(page);
        } else if let Some(pending_load) = &mut *page.navigation.pending_load.borrow_mut() {
            pending_load.hindered = true;
        }
        return Some(HELD);
    }
    let is_revisit = action.navigation_type() == NavigationType::BackForward;
    if !continues_pending_load(&page.navigation, &uri, action.is_redirect(), is_revisit) {
        return Some(LEFT);
    }
    let scheme = uri.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let allowed = matches!(scheme.as_str(), "http" | "https" | "about" | "data" | "blob");
    if !allowed {
        page.navigation.note_rejected();
    }
    (!allowed).then_some("the page leads to an address that is neither http nor https")
}

/// Ends a command's load without leaving the current page.
fn cancel_load(page: &Rc<Page>) {
    let navigation = &page.navigation;
    if navigation.pending_load.take().is_some() {
        navigation.keep_document();
        navigation.reply(Ok(arrived(page)));
    }
}

/// Or this load belongs to the pending load of a command.
fn continues_pending_load(navigation: &Navigation, uri: &str, is_redirect: bool, is_revisit: bool) -> bool {
    let mut pending_load = navigation.pending_load.borrow_mut();
    let Some(pending_load) = &mut *pending_load else { return true };
    let is_own = same(&pending_load.uri, uri);
    match navigation.stage.get() {
        LoadStage::Requested if is_own => navigation.stage.set(LoadStage::Allowed),
        LoadStage::Allowed | LoadStage::Started if is_redirect => uri.clone_into(&mut pending_load.uri),
        _ => {}
    }
    // A move in the history may load only a frame.
    let belongs = is_own || is_redirect || (is_revisit && matches!(pending_load.by, LoadTrigger::History(_)));
    pending_load.hindered |= !belongs;
    belongs
}

fn is_attachment(decision: &ResponsePolicyDecision) -> bool {
    let headers = decision.response().and_then(|response| response.http_headers());
    let disposition = headers.and_then(|headers| headers.one("Content-Disposition"));
    disposition.is_some_and(|disposition| disposition.trim_start().to_ascii_lowercase().starts_with("attachment"))
}

/// Fate of a response that is not shown.
enum Refusal {
    Download,
    Ignored(&'static str),
}

fn weigh_response(page: &Rc<Page>, decision: &ResponsePolicyDecision) -> Option<Refusal> {
    // WebKit would save an attachment to a file, whatever its type is.
    let is_supported = decision.is_mime_type_supported() && !is_attachment(decision);
    let status = decision.response().and_then(|response| u16::try_from(response.status_code()).ok());
    let status = status.unwrap_or_default();
    let is_empty = matches!(status, 204 | 205 | 304);
    if decision.is_main_frame_main_resource() {
        let navigation = &page.navigation;
        navigation.status.set(status);
        if let Some(uri) = decision.request().and_then(|request| request.uri()) {
            let is_page = is_supported && !is_empty;
            navigation.note_answered(&uri, if is_page { LoadTarget::Page } else { LoadTarget::NoPage });
        }
        // WebKit would show an empty page. The answer to a request that it has validated itself has the status of the page.
        if status == 304 {
            return Some(Refusal::Ignored(NO_DOCUMENT));
        }
        if !is_supported && !is_empty && navigation.pending_load.borrow().is_some() {
            navigation.download.set(Some(LoadDownload::Expected));
        }
    }
    match () {
        () if is_supported => None,
        () if is_empty => Some(Refusal::Ignored(NO_DOCUMENT)),
        () => Some(Refusal::Download),
    }
}
