//! Events of pages, and pictures, for the recording of a session.
//!
//! Nothing is collected unless the session is recorded, and no console lines and requests while a person sends input. Pages can
//! cause events without limit, so that each queue has limits of number and size.

mod bands;
pub mod pictures;
mod queue;
pub mod requests;

use std::cell::{Cell, RefCell};

use glib::Variant;
use kitfleet_host_protocol::{Message, PageEvent, PageEventBody, PageEvents};
use webkit2gtk::{UserContentInjectedFrames, UserScript, UserScriptInjectionTime};

use self::bands::BandedPicture;
use self::queue::Queue;
use crate::channel::Output;
use crate::clock::now_us;
use crate::console;
use crate::script::state::WORLD;

/// Marks the fields that pictures do not show, in every frame: a field that was a password field, a field that received a part
/// of a sensitive text, and the host of a closed shadow tree that received text.
///
/// The script is a block, because other scripts of the host declare names in the same world.
///
/// The marks are properties in the isolated world, which pages cannot see. A password field that a page changes to text is
/// known by its `type` attribute. A document that never had such a field needs less care (`hadSecrets`). Observers do not reach into shadow trees, so each input adds one to those on its path.
const LISTENERS: &str = "
{
  const [PASSWORD, SENSITIVE, WATCHED] = ['password', 'sensitive', 'watched'].map((name) => Symbol.for(`kitfleet.${name}`));
  const shared = () => globalThis[Symbol.for('kitfleet.shared')];
  const typeOf = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'type').get;
  const tagOf = Object.getOwnPropertyDescriptor(Element.prototype, 'localName').get;
  const has = Element.prototype.hasAttribute;
  const isInput = (node) => node instanceof HTMLInputElement;
  const changed = (records) => {
    for (const { oldValue, target } of records) {
      if (oldValue?.toLowerCase() === 'password') target[PASSWORD] = true;
    }
  };
  const watch = (root) => {
    if (root[WATCHED]) return;
    root[WATCHED] = true;
    new MutationObserver(changed).observe(root, { subtree: true, attributes: true, attributeFilter: ['type'], attributeOldValue: true });
  };
  const takesText = (node) => ['input', 'textarea', 'select'].includes(tagOf.call(node)) || node.isContentEditable;
  const note = (event) => {
    if (!event.isTrusted) return;
    const path = event.composedPath();
    for (const node of path) {
      if (node.nodeType === 11) watch(node);
    }
    const [target] = path;
    if (target?.nodeType !== 1) return;
    if (isInput(target) && typeOf.call(target) === 'password') {
      target[PASSWORD] = true;
      if (shared()) shared().hadSecrets = true;
    }
    if (event.type === 'input' && has.call(target, 'autocomplete') && shared()) shared().hadSecrets = true;
    if (event.type !== 'input' || target.ownerDocument.designMode === 'on') return;
    if (shared() && (shared().sensitive === true || !takesText(target))) {
      target[SENSITIVE] = true;
      shared().hadSecrets = true;
      (shared().secrets ??= new Set()).add(new WeakRef(target));
    }
  };
  for (const type of ['focusin', 'input']) addEventListener(type, note, { capture: true, passive: true });
  watch(document);
}
";

/// In bytes, of the queued texts.
const MOST_CONSOLE_BYTES: usize = 256 * 1024;
const MOST_CONSOLE_LINES: usize = 500;

const MOST_REQUEST_BYTES: usize = 1024 * 1024;
const MOST_REQUESTS: usize = 1_000;

const MOST_OTHER_BYTES: usize = 256 * 1024;
const MOST_OTHERS: usize = 200;

pub struct Recording {
    is_on: Cell<bool>,
    /// A person sends input.
    is_paused: Cell<bool>,
    /// The worker knows that there are events.
    is_announced: Cell<bool>,
    console: RefCell<Queue>,
    requests: RefCell<Queue>,
    /// Dialogs, pages and downloads.
    others: RefCell<Queue>,
    script: RefCell<Option<UserScript>>,
    pub pictures: Pictures,
    output: Output,
}

impl Recording {
    pub fn new(output: Output) -> Self {
        Self {
            is_on: Cell::new(false),
            is_paused: Cell::new(false),
            is_announced: Cell::new(false),
            console: RefCell::new(Queue::new(MOST_CONSOLE_LINES, MOST_CONSOLE_BYTES)),
            requests: RefCell::new(Queue::new(MOST_REQUESTS, MOST_REQUEST_BYTES)),
            others: RefCell::new(Queue::new(MOST_OTHERS, MOST_OTHER_BYTES)),
            script: RefCell::default(),
            pictures: Pictures::default(),
            output,
        }
    }

    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// False while a person sends input.
    pub fn sees_pages(&self) -> bool {
        self.is_on.get() && !self.is_paused.get()
    }

    pub fn pause(&self, is_paused: bool) {
        self.is_paused.set(is_paused);
        if is_paused {
            self.pictures.discard();
        }
    }

    /// Script of all frames. `None` if the session is not recorded.
    pub fn script(&self) -> Option<UserScript> {
        self.script.borrow().clone()
    }

    pub fn note_console(&self, report: Option<&Variant>) {
        if !self.sees_pages() {
            return;
        }
        if let Some((line, dropped)) = report.and_then(console::parse) {
            let bytes = line.text.len() + line.address.len();
            self.console.borrow_mut().drop_more(dropped.into());
            self.add(&self.console, PageEventBody::Console(line), bytes);
        }
    }

    fn note_request(&self, request: kitfleet_host_protocol::RequestEntry) {
        if self.sees_pages() {
            let texts = [&request.frame_uri, &request.error, &request.mime_type];
            let headers = request.request_headers.iter().chain(&request.response_headers);
            let bytes = request.uri.len()
                + texts.into_iter().flatten().map(String::len).sum::<usize>()
                + headers.map(|(name, value)| name.len() + value.len()).sum::<usize>();
            self.add(&self.requests, PageEventBody::Request(request), bytes);
        }
    }

    /// A change of dialogs, pages or downloads, also while a person sends input.
    pub fn note(&self, body: PageEventBody) {
        if self.is_on() {
            let bytes = match &body {
                PageEventBody::DialogOpened(dialog) => dialog.message.len(),
                PageEventBody::DialogAnswered(dialog) => dialog.message.len(),
                PageEventBody::PageOpened { uri, .. } | PageEventBody::PageActivated { uri, .. } => uri.len(),
                PageEventBody::DownloadStarted(entry) | PageEventBody::DownloadEnded(entry) => entry.uri.len(),
                _ => 0,
            };
            self.add(&self.others, body, bytes);
        }
    }

    fn add(&self, queue: &RefCell<Queue>, body: PageEventBody, bytes: usize) {
        queue.borrow_mut().push(PageEvent { at_us: now_us(), body }, bytes);
        if !self.is_announced.replace(true) {
            self.output.send(&Message::EventsWaiting);
        }
    }

    pub fn take(&self) -> PageEvents {
        self.is_announced.set(false);
        let queues = [&self.others, &self.requests, &self.console];
        let (events, dropped): (Vec<_>, Vec<_>) = queues.iter().map(|queue| queue.borrow_mut().take()).unzip();
        let mut events: Vec<PageEvent> = events.into_iter().flatten().collect();
        events.sort_by_key(|event| event.at_us);
        PageEvents { events, dropped: dropped.into_iter().sum() }
    }
    /// Begins the recording, and returns the script of all frames, for the present pages.
    pub fn begin(&self) -> UserScript {
        self.is_on.set(true);
        let everywhere = UserContentInjectedFrames::AllFrames;
        let script = UserScript::for_world(LISTENERS, everywhere, UserScriptInjectionTime::Start, WORLD, &[], &[]);
        self.script.replace(Some(script.clone()));
        script
    }
}

#[derive(Default)]
pub struct Pictures {
    picture: RefCell<BandedPicture>,
    /// The page that the picture shows.
    page: Cell<u32>,
    /// The picture is not recorded yet, and may be.
    is_painted: Cell<bool>,
    /// The picture looks as the last recorded one.
    is_recorded: Cell<bool>,
    /// It is not known which parts of the page have changed.
    is_stale: Cell<bool>,
}

impl Pictures {
    pub fn discard(&self) {
        self.is_painted.set(false);
        // The worker may not have received the last picture.
        self.is_recorded.set(false);
    }

    /// Viewers take the changed areas until they leave.
    pub fn require_whole(&self) {
        self.is_stale.set(true);
    }
}
