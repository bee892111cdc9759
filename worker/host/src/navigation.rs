//! Loading pages, and knowing how the main document fares.
//!
//! WebKit reports a load by signals: started, redirected, committed, finished, failed. One load is under way at a time,
//! begun by a command or by the page itself, and a command waits for the load that follows it.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::select;
use gtk::prelude::*;
use kitfleet_host_protocol::{HostError, Lifecycle, Navigated, PageError, PageErrorKind, WaitUntil};
use url::Url;
use webkit2gtk::{
    LoadEvent, NavigationPolicyDecision, NavigationPolicyDecisionExt, PolicyDecision, PolicyDecisionExt,
    PolicyDecisionType, ResponsePolicyDecision, ResponsePolicyDecisionExt, URIRequestExt, URIResponseExt,
    UserContentInjectedFrames, UserContentManagerExt, UserScript, UserScriptInjectionTime, WebResource, WebResourceExt,
    WebViewExt,
};

use crate::browser::Browser;
use crate::{failure, script};

/// The name under which a main document reports `DOMContentLoaded`.
const HANDLER: &str = "kitfleetDocument";

/// Reports `DOMContentLoaded`.
const LISTENER: &str =
    "addEventListener('DOMContentLoaded', () => webkit.messageHandlers.kitfleetDocument.postMessage(0), true)";

/// How long a page may take to begin sending its visitor on.
const DEPART_WITHIN: Duration = Duration::from_millis(50);

/// Why an address that WebKit would save to a file is refused.
const DOWNLOAD: &str = "the address is a download";

/// How long the network has to be quiet to be idle.
const IDLE_AFTER: Duration = Duration::from_millis(500);

/// The load under way, and the document it led to.
#[derive(Default)]
pub struct Navigation {
    lifecycle: RefCell<Option<Lifecycle>>,
    /// What to return to when a load ends without a document and the old one stays.
    previous: RefCell<Option<Lifecycle>>,
    /// Whether a command has navigated: the blank page before is none of a session's.
    begun: Cell<bool>,
    stage: Cell<Stage>,
    /// The HTTP status of the last response for the main document.
    status: Cell<u16>,
    /// Why a policy of ours ended the load.
    refusal: RefCell<Option<&'static str>>,
    waiter: RefCell<Option<Waiter>>,
    in_flight: RefCell<HashSet<WebResource>>,
    idle_timer: RefCell<Option<glib::SourceId>>,
}

/// How far the load under way has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// A command has asked for it; what starts and ends now is another load.
    Requested,
    /// WebKit has asked whether it may: the next load that starts is this one.
    Allowed,
    /// No document yet.
    Started,
    /// The document is being read.
    Committed,
    /// There is no load under way.
    #[default]
    Done,
}

/// A command that waits for its load.
struct Waiter {
    target: Url,
    until: WaitUntil,
    reply: oneshot::Sender<Result<Navigated, PageError>>,
}

impl Navigation {
    /// How the main document fares; `None` before the first navigation.
    pub fn lifecycle(&self) -> Option<Lifecycle> {
        self.lifecycle.borrow().clone()
    }

    fn fail(&self, error: PageError) {
        self.stage.set(Stage::Done);
        if self.begun.get() {
            self.lifecycle.replace(Some(Lifecycle::Errored { error: error.clone() }));
        }
        self.reply(Err(error));
    }

    /// The load ends without a document, as one of a file does: the document before it stays.
    fn keep_document(&self) {
        self.stage.set(Stage::Done);
        if let Some(previous) = self.previous.take() {
            self.lifecycle.replace(Some(previous));
        }
    }

    fn reply(&self, result: Result<Navigated, PageError>) {
        self.stop_idle_timer();
        if let Some(waiter) = self.waiter.take() {
            // A worker that no longer waits has stopped reading too.
            let _ = waiter.reply.send(result);
        }
    }

    fn awaits(&self, until: WaitUntil) -> bool {
        self.waiter.borrow().as_ref().is_some_and(|waiter| waiter.until == until)
    }

    fn stop_idle_timer(&self) {
        if let Some(timer) = self.idle_timer.take() {
            timer.remove();
        }
    }
}

/// Loads a page and waits until it has come as far as `until`.
pub async fn navigate(browser: &Rc<Browser>, uri: &str, until: WaitUntil) -> Result<Navigated, HostError> {
    if !browser.is_configured() {
        return Err(failure::engine("the host is not configured yet"));
    }
    let navigation = &browser.navigation;
    let target = match Url::parse(uri) {
        Ok(target) if matches!(target.scheme(), "http" | "https") => target,
        Ok(_) => return Err(HostError::Navigation(failure::net("only http and https addresses are allowed"))),
        Err(error) => return Err(HostError::Navigation(failure::net(format!("not an address: {error}")))),
    };
    navigation.reply(Err(failure::net("superseded by another navigation")));
    let (reply, arrival) = oneshot::channel();
    navigation.waiter.replace(Some(Waiter { target: target.clone(), until, reply }));

    let within_document = navigation.begun.get() && moves_within(browser, &target);
    navigation.begun.set(true);
    navigation.refusal.take();
    if !within_document {
        navigation.previous.take();
        navigation.lifecycle.replace(Some(Lifecycle::Loading));
        navigation.stage.set(Stage::Requested);
    }
    browser.view.load_uri(target.as_str());
    if within_document {
        arrive_within(browser, &target).await?;
    }
    match arrival.await {
        Ok(result) => result.map_err(HostError::Navigation),
        Err(oneshot::Canceled) => Err(failure::engine("the navigation was forgotten")),
    }
}

/// Loads the blank page of a host that is no session's yet.
pub fn load_blank(browser: &Rc<Browser>, loaded: impl FnOnce() + 'static) {
    let handler = Rc::new(Cell::new(None));
    let loaded = Cell::new(Some(loaded));
    let id = browser.view.connect_load_changed({
        let handler = handler.clone();
        move |view, event| {
            if event == LoadEvent::Finished
                && let Some(loaded) = loaded.take()
            {
                loaded();
                if let Some(id) = handler.take() {
                    view.disconnect(id);
                }
            }
        }
    });
    handler.set(Some(id));
    browser.view.load_uri("about:blank");
}

/// Goes to the blank page, and waits until the page before has heard that it is left.
pub async fn leave(browser: &Rc<Browser>) {
    browser.navigation.reply(Err(failure::net("the page was left")));
    let (reply, left) = oneshot::channel();
    let reply = Cell::new(Some(reply));
    let handler = browser.view.connect_load_changed(move |_, event| {
        if event == LoadEvent::Committed
            && let Some(reply) = reply.take()
        {
            // The host may be ending.
            let _ = reply.send(());
        }
    });
    browser.view.load_uri("about:blank");
    let _ = left.await;
    browser.view.disconnect(handler);
}

/// Connects the signals of loads.
pub fn follow(browser: &Rc<Browser>) {
    let view = &browser.view;
    let with_browser = |act: fn(&Rc<Browser>)| {
        let browser = Rc::downgrade(browser);
        move || {
            if let Some(browser) = browser.upgrade() {
                act(&browser);
            }
        }
    };
    let (started, committed, finished) =
        (with_browser(on_started), with_browser(on_committed), with_browser(on_finished));
    view.connect_load_changed(move |_, event| match event {
        LoadEvent::Started => started(),
        LoadEvent::Committed => committed(),
        LoadEvent::Finished => finished(),
        _ => {}
    });

    let weak = Rc::downgrade(browser);
    view.connect_load_failed(move |_, event, _, error| {
        if let Some(browser) = weak.upgrade() {
            on_failed(&browser.navigation, event, error);
        }
        // The built-in error page would be a document that nobody asked for.
        true
    });
    let weak = Rc::downgrade(browser);
    view.connect_load_failed_with_tls_errors(move |_, _, _, flags| {
        if let Some(browser) = weak.upgrade() {
            browser.navigation.fail(failure::certificate(flags));
        }
        true
    });
    let weak = Rc::downgrade(browser);
    view.connect_decide_policy(move |_, decision, kind| {
        weak.upgrade().is_some_and(|browser| decide(&browser, decision, kind))
    });
    let weak = Rc::downgrade(browser);
    view.connect_resource_load_started(move |_, resource, _| {
        if let Some(browser) = weak.upgrade() {
            on_resource_started(&browser, resource);
        }
    });

    let Some(content) = view.user_content_manager() else { return };
    let loaded = with_browser(on_dom_content_loaded);
    content.connect_script_message_received(Some(HANDLER), move |_, _| loaded());
    content.register_script_message_handler_in_world(HANDLER, script::WORLD);
    content.add_script(&UserScript::for_world(
        LISTENER,
        UserContentInjectedFrames::TopFrame,
        UserScriptInjectionTime::Start,
        script::WORLD,
        &[],
        &[],
    ));
}

/// Whether `target` is another place in the current document.
fn moves_within(browser: &Rc<Browser>, target: &Url) -> bool {
    let has_document = match &*browser.navigation.lifecycle.borrow() {
        Some(Lifecycle::Loaded) => true,
        Some(Lifecycle::Errored { error }) => error.kind == PageErrorKind::Http,
        Some(Lifecycle::Loading) | None => false,
    };
    let Some(Ok(current)) = browser.view.uri().map(|uri| Url::parse(&uri)) else { return false };
    let without_fragment = |url: &Url| {
        let mut url = url.clone();
        url.set_fragment(None);
        url
    };
    has_document
        && target.fragment().is_some()
        && target != &current
        && without_fragment(target) == without_fragment(&current)
}

/// WebKit reports no load for a move within a document, so it is asked where it is.
async fn arrive_within(browser: &Rc<Browser>, target: &Url) -> Result<(), HostError> {
    for _ in 0..100 {
        let here = script::evaluate(browser, "return location.href").await?;
        if here.as_str() == Some(target.as_str()) {
            browser.navigation.reply(Ok(arrived(browser)));
            return Ok(());
        }
        glib::timeout_future(Duration::from_millis(1)).await;
    }
    browser.navigation.reply(Err(failure::net("the page did not move")));
    Ok(())
}

fn arrived(browser: &Browser) -> Navigated {
    Navigated {
        final_uri: browser.view.uri().map(String::from).unwrap_or_default(),
        status: browser.navigation.status.get(),
    }
}

fn status_of_document(browser: &Rc<Browser>) -> u16 {
    let response = browser.view.main_resource().and_then(|resource| resource.response());
    response.and_then(|response| u16::try_from(response.status_code()).ok()).unwrap_or_default()
}

fn on_started(browser: &Rc<Browser>) {
    let navigation = &browser.navigation;
    if navigation.stage.get() == Stage::Requested {
        return;
    }
    navigation.stop_idle_timer();
    navigation.stage.set(Stage::Started);
    navigation.refusal.take();
    navigation.status.set(0);
    if navigation.begun.get() {
        let before = navigation.lifecycle.replace(Some(Lifecycle::Loading));
        if before != Some(Lifecycle::Loading) {
            navigation.previous.replace(before);
        }
    }
}

fn on_committed(browser: &Rc<Browser>) {
    let navigation = &browser.navigation;
    browser.scripts.abandon();
    if navigation.stage.get() == Stage::Started {
        navigation.stage.set(Stage::Committed);
    }
    // Resources of the document before will never say that they ended.
    let main = browser.view.main_resource();
    navigation.in_flight.borrow_mut().retain(|resource| Some(resource) == main.as_ref());
}

fn on_dom_content_loaded(browser: &Rc<Browser>) {
    let navigation = &browser.navigation;
    // Before, it is the report of the document that this load replaces.
    if navigation.stage.get() == Stage::Committed && navigation.awaits(WaitUntil::DomContentLoaded) {
        navigation.reply(Ok(arrived(browser)));
    }
}

fn on_finished(browser: &Rc<Browser>) {
    let navigation = &browser.navigation;
    match navigation.stage.replace(Stage::Done) {
        // A forbidden port becomes a blank page without a word.
        Stage::Committed if navigation.waiter.borrow().is_some() && navigation.status.get() == 0 => {
            return navigation.fail(failure::net("the address is not allowed"));
        }
        Stage::Committed => {}
        Stage::Started => return navigation.fail(failure::net("the address is not allowed")),
        // The end of the load before, or of one that failed.
        stage @ (Stage::Requested | Stage::Allowed | Stage::Done) => return navigation.stage.set(stage),
    }
    if navigation.begun.get() {
        if navigation.status.get() == 0 {
            // A page that comes from the history asks no leave for its response.
            navigation.status.set(status_of_document(browser));
        }
        let status = navigation.status.get();
        let lifecycle =
            if status >= 400 { Lifecycle::Errored { error: failure::http(status) } } else { Lifecycle::Loaded };
        navigation.lifecycle.replace(Some(lifecycle));
    }
    if navigation.awaits(WaitUntil::NetworkIdle) {
        await_idle(browser);
    } else if navigation.awaits(WaitUntil::Load) {
        await_departure(browser);
    } else {
        navigation.reply(Ok(arrived(browser)));
    }
}

/// Many a page only sends its visitor on to another, by script. That load begins right after this one has ended, so
/// the page gets a moment to begin it; then the command follows.
fn await_departure(browser: &Rc<Browser>) {
    let browser = browser.clone();
    glib::MainContext::default().spawn_local(async move {
        // After the first turn WebKit has asked for the other load's leave, after the second it has begun it.
        let turns = Box::pin(async {
            let _ = script::evaluate(&browser, "await new Promise((done) => setTimeout(done))").await;
            let _ = script::evaluate(&browser, "").await;
        });
        select(turns, glib::timeout_future(DEPART_WITHIN)).await;
        let navigation = &browser.navigation;
        if navigation.stage.get() == Stage::Done && navigation.awaits(WaitUntil::Load) {
            navigation.reply(Ok(arrived(&browser)));
        }
    });
}

fn on_failed(navigation: &Navigation, event: LoadEvent, error: &glib::Error) {
    if navigation.stage.get() == Stage::Requested {
        return;
    }
    let commanded = navigation.waiter.borrow().is_some();
    if failure::is_cancellation(error) {
        match event {
            // The page stopped its own load, and what it has got stays: `Finished` follows.
            LoadEvent::Committed => {}
            // Another load took its place: the command's own, or one of the page's, which the command then follows.
            _ if commanded => navigation.stage.set(Stage::Allowed),
            _ => navigation.keep_document(),
        }
    } else if !failure::is_interruption(error) {
        navigation.fail(failure::of_load(error));
    } else if commanded {
        let message = match (navigation.refusal.take(), navigation.status.get()) {
            (Some(refusal), _) => refusal.to_owned(),
            (None, status @ (204 | 205)) => format!("the server answered {status}: there is no page"),
            (None, _) => DOWNLOAD.to_owned(),
        };
        navigation.fail(failure::net(message));
    } else {
        navigation.keep_document();
    }
}

fn on_resource_started(browser: &Rc<Browser>, resource: &WebResource) {
    browser.navigation.stop_idle_timer();
    browser.navigation.in_flight.borrow_mut().insert(resource.clone());
    let ended = {
        let browser = Rc::downgrade(browser);
        move |resource: &WebResource| {
            if let Some(browser) = browser.upgrade() {
                browser.navigation.in_flight.borrow_mut().remove(resource);
                await_idle(&browser);
            }
        }
    };
    resource.connect_finished(ended.clone());
    resource.connect_failed(move |resource, _| ended(resource));
}

/// Once the page has loaded and nothing is in flight, replies after half a second in which nothing starts.
fn await_idle(browser: &Rc<Browser>) {
    let navigation = &browser.navigation;
    navigation.stop_idle_timer();
    let quiet = navigation.stage.get() == Stage::Done && navigation.in_flight.borrow().is_empty();
    if !quiet || !navigation.awaits(WaitUntil::NetworkIdle) {
        return;
    }
    let weak = Rc::downgrade(browser);
    let timer = glib::timeout_add_local_once(IDLE_AFTER, move || {
        if let Some(browser) = weak.upgrade() {
            // It is gone from the main loop by itself.
            browser.navigation.idle_timer.take();
            browser.navigation.reply(Ok(arrived(&browser)));
        }
    });
    navigation.idle_timer.replace(Some(timer));
}

/// Lets pages load what the web is made of, and nothing of this machine. Returns whether that was decided here.
fn decide(browser: &Rc<Browser>, decision: &PolicyDecision, kind: PolicyDecisionType) -> bool {
    let refusal = match kind {
        PolicyDecisionType::Response => decision.downcast_ref().and_then(|response| weigh_response(browser, response)),
        _ => decision.downcast_ref().and_then(|request| weigh_request(browser, request)),
    };
    let Some(refusal) = refusal else { return false };
    browser.navigation.refusal.replace(Some(refusal));
    decision.ignore();
    true
}

fn weigh_request(browser: &Rc<Browser>, decision: &NavigationPolicyDecision) -> Option<&'static str> {
    let uri = decision.navigation_action()?.request()?.uri()?;
    let navigation = &browser.navigation;
    if navigation.stage.get() == Stage::Requested
        && let Some(waiter) = &*navigation.waiter.borrow()
        && Url::parse(&uri).as_ref() == Ok(&waiter.target)
    {
        navigation.stage.set(Stage::Allowed);
    }
    let scheme = uri.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let allowed = matches!(scheme.as_str(), "http" | "https" | "about" | "data" | "blob");
    (!allowed).then_some("the page leads to an address that is neither http nor https")
}

fn weigh_response(browser: &Rc<Browser>, decision: &ResponsePolicyDecision) -> Option<&'static str> {
    if decision.is_main_frame_main_resource() {
        let status = decision.response().and_then(|response| u16::try_from(response.status_code()).ok());
        browser.navigation.status.set(status.unwrap_or_default());
    }
    (!decision.is_mime_type_supported()).then_some(DOWNLOAD)
}
