//! The one web view, its window, and what it refuses to do.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use glib::translate::{ToGlibPtr, ToGlibPtrMut};
use gtk::prelude::*;
use kitfleet_host_protocol::{Device, HostError, Message, Page};
use serde_json::{Value, json};
use webkit2gtk::{
    CacheModel, ColorChooserRequestExt, DownloadExt, FileChooserRequestExt, HardwareAccelerationPolicy,
    NavigationAction, NetworkProxyMode, NetworkProxySettings, OptionMenu, PermissionRequestExt, ScriptDialog,
    ScriptDialogType, Settings, SettingsExt, TLSErrorsPolicy, URIRequestExt, UserContentInjectedFrames,
    UserContentManager, UserContentManagerExt, UserScript, UserScriptInjectionTime, WebContext, WebContextExt,
    WebProcessTerminationReason, WebView, WebViewExt, WebsiteDataManager, WebsiteDataManagerExt,
};

use crate::acknowledgement::{self, Acknowledgements};
use crate::channel::Output;
use crate::live::{Live, asked};
use crate::navigation::{self, Navigation};
use crate::script::{self, Scripts};
use crate::submissions::{self, Submissions};
use crate::{Arguments, failure, screen};

/// Nothing listens there: until it is configured, a browser has no way out.
const NOWHERE: &str = "socks5://127.0.0.1:1";

/// Farther than the screen reaches, in pixels of either scale.
const BESIDE: i32 = 1_000;

/// How long a page may take to say its title.
const TITLE_WITHIN: Duration = Duration::from_millis(100);

/// How long a page may take to get its new size.
const LAYOUT_WITHIN: Duration = Duration::from_secs(2);

/// The web view and all that is known about it. It lives on the main loop alone.
pub struct Browser {
    /// The view that every page loads in.
    pub view: WebView,
    /// How the main document fares.
    pub navigation: Navigation,
    /// The scripts under way.
    pub scripts: Scripts,
    /// The input that pages have handled.
    pub acknowledgements: Acknowledgements,
    /// The forms that pages may not submit.
    pub submissions: Submissions,
    /// What those see who watch.
    pub live: Live,
    /// Where everything lies that the browser writes.
    pub directory: PathBuf,
    window: gtk::Window,
    context: WebContext,
    settings: Settings,
    /// The scripts that pages get from us.
    pub content: UserContentManager,
    configured: Cell<bool>,
    /// Characters of an address and of a title.
    lengths: Cell<(usize, usize)>,
}

/// Names the files that say which implementations of EGL there are.
const OPENGL_VENDORS: &str = "__EGL_VENDOR_LIBRARY_FILENAMES";

impl Browser {
    /// Starts WebKit with a blank page, and says [`Message::Ready`] when that has loaded.
    pub fn start(arguments: &Arguments, output: Output) -> Result<Rc<Self>, String> {
        // Looking for an OpenGL that this process does not use loads one, which takes more memory than all else here.
        // Pages have theirs: their processes start later, without this.
        glib::setenv(OPENGL_VENDORS, "/dev/null", true).map_err(|error| error.to_string())?;
        let context = context(arguments)?;
        let settings = settings();
        glib::unsetenv(OPENGL_VENDORS);
        let scripts = UserContentManager::new();
        let view = WebView::builder().web_context(&context).settings(&settings).user_content_manager(&scripts).build();
        let browser = Rc::new(Self {
            window: window(&view, arguments.viewport),
            view,
            navigation: Navigation::default(),
            scripts: Scripts::default(),
            acknowledgements: Acknowledgements::default(),
            submissions: Submissions::default(),
            live: Live::default(),
            directory: arguments.data_dir.clone(),
            context,
            settings,
            content: scripts,
            configured: Cell::new(false),
            lengths: Cell::default(),
        });
        browser.listen();
        browser.refuse();
        browser.view.connect_web_process_terminated({
            let output = output.clone();
            move |_, reason| {
                // The host itself ends it last.
                if reason != WebProcessTerminationReason::TerminatedByApi {
                    output.send(&Message::WebProcessTerminated { reason: format!("{reason:?}") });
                    gtk::main_quit();
                }
            }
        });
        navigation::follow(&browser);
        // The page's process starts while GTK looks for its theme and its fonts.
        navigation::load_blank(&browser, move || output.send(&Message::Ready));
        browser.show();
        Ok(browser)
    }

    /// Turns the blank host into a device, and waits until its page has the device's size.
    pub async fn configure(self: &Rc<Self>, device: Device) -> Result<(), HostError> {
        if self.configured.replace(true) {
            return Err(failure::engine("the host is configured already"));
        }
        self.lengths.set((device.uri_chars, device.title_chars));
        let size = |value: u32| i32::try_from(value).map_err(|_| failure::engine("the size is out of range"));
        screen::resize((size(device.screen_width)?, size(device.screen_height)?));
        self.window.resize(size(device.viewport_width)?, size(device.viewport_height)?);
        self.settings.set_user_agent(Some(&device.user_agent));
        let languages: Vec<&str> = device.languages.iter().map(String::as_str).collect();
        self.context.set_preferred_languages(&languages);
        if let Some(manager) = self.context.website_data_manager() {
            use_proxy(&manager, &device.proxy);
        }
        self.content.add_script(&UserScript::new(
            &disguise(&device),
            UserContentInjectedFrames::AllFrames,
            UserScriptInjectionTime::Start,
            &[],
            &[],
        ));
        self.await_layout(&device).await
    }

    /// Whether [`Self::configure`] was called: before it there is no way out.
    pub fn is_configured(&self) -> bool {
        self.configured.get()
    }

    /// What the browser shows now.
    pub async fn page(self: &Rc<Self>) -> Page {
        let (_, most) = self.lengths.get();
        // WebKit hears of a title somewhat after the page has it. A page that is too busy to say has the one it had.
        let question =
            format!("return document.title.slice(0, {}).toWellFormed()", most.saturating_add(1).saturating_mul(2));
        let asked = Box::pin(script::evaluate(self, &question));
        let title = match select(asked, glib::timeout_future(TITLE_WITHIN)).await {
            Either::Left((Ok(title), _)) => title.as_str().map(str::to_owned),
            _ => self.view.title().map(String::from),
        };
        let (title, title_was_cut) = cut(title.unwrap_or_default(), most);
        let (uri, uri_was_cut) = self.uri();
        Page {
            uri,
            title: (!title.is_empty()).then_some(title),
            truncated: title_was_cut || uri_was_cut,
            lifecycle: self.navigation.lifecycle(),
        }
    }

    /// The current address, cut to size, and whether it was.
    pub fn uri(&self) -> (String, bool) {
        let (most, _) = self.lengths.get();
        cut(self.view.uri().map(String::from).unwrap_or_default(), most)
    }

    /// The current title as far as WebKit has heard of it, cut to size.
    pub fn title(&self) -> Option<String> {
        let (_, most) = self.lengths.get();
        let (title, _) = cut(self.view.title().map(String::from).unwrap_or_default(), most);
        (!title.is_empty()).then_some(title)
    }

    async fn await_layout(self: &Rc<Self>, device: &Device) -> Result<(), HostError> {
        let Device { viewport_width, viewport_height, screen_width, screen_height, .. } = device;
        let wanted = json!([viewport_width, viewport_height, screen_width, screen_height]);
        let start = Instant::now();
        loop {
            let size = script::evaluate(self, "return [innerWidth, innerHeight, screen.width, screen.height]").await?;
            if size == wanted {
                return Ok(());
            }
            if start.elapsed() > LAYOUT_WITHIN {
                return Err(failure::engine(format!("the page is {size} instead of {wanted}")));
            }
            glib::timeout_future(Duration::from_millis(2)).await;
        }
    }

    /// Shows the window, which takes itself for the active one: X has no window manager that would say so, and an inactive
    /// page fires no focus events.
    fn show(&self) {
        self.window.show_all();
        self.view.grab_focus();
        activate(&self.window);
        // Nobody looks at it, so that GTK need not copy to the display what a page has painted.
        if let Some(surface) = self.surface() {
            surface.freeze_updates();
        }
    }

    /// What the window is to the display.
    pub fn surface(&self) -> Option<gdk::Window> {
        self.window.window()
    }

    /// Hears the reports of our own world's listeners.
    fn listen(self: &Rc<Self>) {
        let browser = Rc::downgrade(self);
        self.content.connect_script_message_received(Some(acknowledgement::HANDLER), move |_, message| {
            if let (Some(browser), Some(value)) = (browser.upgrade(), message.js_value()) {
                let report = javascriptcore::ValueExt::to_str(&value);
                browser.submissions.note(&report);
                browser.acknowledgements.note(&report);
            }
        });
        self.content.register_script_message_handler_in_world(acknowledgement::HANDLER, script::WORLD);
        for listeners in [acknowledgement::LISTENERS, submissions::LISTENERS] {
            self.content.add_script(&UserScript::for_world(
                listeners,
                UserContentInjectedFrames::AllFrames,
                UserScriptInjectionTime::Start,
                script::WORLD,
                &[],
                &[],
            ));
        }
    }

    /// Answers everything that would wait for a person, or reach beyond the page.
    fn refuse(self: &Rc<Self>) {
        self.context.connect_download_started(|_, download| download.cancel());
        let browser = Rc::downgrade(self);
        self.view.connect_script_dialog(move |_, dialog| {
            match browser.upgrade() {
                Some(browser) => asked::open_dialog(&browser, dialog),
                None => answer(dialog),
            }
            true
        });
        self.view.connect_permission_request(|_, request| {
            request.deny();
            true
        });
        self.view.connect_authenticate(|_, request| {
            // Cancelling would end the load; without credentials it goes on to the page that the server has for that.
            // SAFETY: the request is valid, and the call takes null for no credentials.
            unsafe {
                webkit2gtk_sys::webkit_authentication_request_authenticate(
                    request.to_glib_none().0,
                    std::ptr::null_mut(),
                );
            }
            true
        });
        self.view.connect_run_file_chooser(|_, request| {
            request.cancel();
            true
        });
        self.view.connect_run_color_chooser(|_, request| {
            request.cancel();
            true
        });
        // The bindings of these two signals panic when no event led to the menu.
        let browser = Rc::downgrade(self);
        self.view.connect_local("show-option-menu", false, move |values| {
            if let (Some(browser), Ok(menu)) = (browser.upgrade(), values[1].get::<OptionMenu>()) {
                asked::open_menu(&browser, menu);
            }
            Some(true.to_value())
        });
        self.view.connect_local("context-menu", false, |_| Some(true.to_value()));
        self.view.connect_print(|_, _| true);
        self.view.connect_show_notification(|_, _| true);
        self.view.connect_enter_fullscreen(|_| true);
        let browser = Rc::downgrade(self);
        self.view.connect_create(move |_, action| {
            if let Some(browser) = browser.upgrade() {
                browser.load_in_place(action);
            }
            None
        });
    }

    /// A session has one view: what a person's tap would open in another window opens here. What a page opens by
    /// itself is a popup, and stays away.
    fn load_in_place(self: &Rc<Self>, action: &NavigationAction) {
        let Some(request) = action.clone().request() else { return };
        let loadable = request.uri().is_some_and(|uri| uri.starts_with("http:") || uri.starts_with("https:"));
        if action.is_user_gesture() && loadable {
            let view = self.view.clone();
            // WebKit is in the midst of asking for a window.
            glib::idle_add_local_once(move || view.load_request(&request));
        }
    }
}

/// The first so many characters of a text, and whether there are more.
fn cut(mut text: String, most: usize) -> (String, bool) {
    match text.char_indices().nth(most) {
        Some((end, _)) => {
            text.truncate(end);
            text.shrink_to_fit();
            (text, true)
        }
        None => (text, false),
    }
}

fn context(arguments: &Arguments) -> Result<WebContext, String> {
    let directory = &arguments.data_dir;
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let path = directory.to_str().ok_or_else(|| format!("{} is not UTF-8", directory.display()))?;
    let manager =
        WebsiteDataManager::builder().base_data_directory(path).base_cache_directory(format!("{path}/cache")).build();
    let context = WebContext::builder().website_data_manager(&manager).build();
    // A session's pages are few and seldom seen again: what WebKit would keep of them in memory is better spent on
    // another session.
    context.set_cache_model(CacheModel::DocumentViewer);
    context.set_sandbox_enabled(arguments.sandbox);
    manager.set_tls_errors_policy(TLSErrorsPolicy::Fail);
    use_proxy(&manager, NOWHERE);
    Ok(context)
}

/// Sends everything through the proxy: with no exceptions, loopback addresses too.
fn use_proxy(manager: &WebsiteDataManager, proxy: &str) {
    let mut settings = NetworkProxySettings::new(Some(proxy), &[]);
    manager.set_network_proxy_settings(NetworkProxyMode::Custom, Some(&mut settings));
}

fn settings() -> Settings {
    let settings = Settings::new();
    settings.set_hardware_acceleration_policy(HardwareAccelerationPolicy::Never);
    settings.set_enable_developer_extras(false);
    // WebRTC's UDP and the resolver's own look-ups would go past the proxy.
    settings.set_enable_webrtc(false);
    settings.set_enable_media_stream(false);
    settings.set_enable_dns_prefetching(false);
    settings.set_enable_page_cache(false);
    settings.set_enable_fullscreen(false);
    settings.set_enable_smooth_scrolling(false);
    settings.set_javascript_can_open_windows_automatically(false);
    settings.set_allow_top_navigation_to_data_urls(false);
    settings
}

/// A window of the view alone.
fn window(view: &WebView, (width, height): (i32, i32)) -> gtk::Window {
    let window = gtk::Window::new(gtk::WindowType::Toplevel);
    window.set_decorated(false);
    window.set_default_size(width, height);
    // Beside the screen, where nothing is drawn and no pointer is: WebKit paints its pictures by itself.
    window.move_(BESIDE, BESIDE);
    window.add(view);
    window
}

fn activate(window: &gtk::Window) {
    let Some(surface) = window.window() else { return };
    let mut event = gdk::Event::new(gdk::EventType::FocusChange);
    // SAFETY: GDK made the event with this type, so it has this layout; the event owns the reference to its window.
    unsafe {
        let raw: *mut gdk::ffi::GdkEvent = event.to_glib_none_mut().0;
        let focus: *mut gdk::ffi::GdkEventFocus = raw.cast();
        (*focus).window = surface.to_glib_full();
        (*focus).in_ = 1;
    }
    // GTK warns of events without a device.
    event.set_device(surface.display().default_seat().and_then(|seat| seat.keyboard()).as_ref());
    gtk::main_do_event(&mut event);
}

/// Where nobody sits before the screen, what a person could dismiss is dismissed, and a page may always be left.
pub fn answer(dialog: &ScriptDialog) {
    if dialog.dialog_type() == ScriptDialogType::BeforeUnloadConfirm {
        dialog.confirm_set_confirmed(true);
    }
}

/// Overrides the two properties of `navigator` that WebKit takes from Linux.
///
/// Each getter is a proxy of WebKit's own, so that it is named and throws as that does; `Function.prototype.toString`
/// is one too, since a proxy would print as what it is. What the proxies call is kept here, where no page can change it.
fn disguise(device: &Device) -> String {
    let properties: [(&str, Value); 2] =
        [("platform", json!(device.platform)), ("maxTouchPoints", json!(device.max_touch_points))];
    let properties = json!(properties);
    format!(
        "{{
  const {{ apply }} = Reflect;
  const natives = [];
  const replace = (owner, name, slot, call) => {{
    const property = Object.getOwnPropertyDescriptor(owner, name);
    if (!property) return;
    const native = property[slot];
    const proxy = new Proxy(native, {{ apply: (target, self, list) => call(native, self, list) }});
    natives[natives.length] = {{ proxy, native }};
    Object.defineProperty(owner, name, {{ ...property, [slot]: proxy }});
  }};
  for (const [name, value] of {properties}) {{
    replace(Navigator.prototype, name, 'get', (native, self, list) => (apply(native, self, list), value));
  }}
  replace(Function.prototype, 'toString', 'value', (native, self, list) => {{
    for (let index = 0; index < natives.length; index++) {{
      if (natives[index].proxy === self) self = natives[index].native;
    }}
    return apply(native, self, list);
  }});
}}"
    )
}
