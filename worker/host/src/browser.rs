//! The web view, its window, and the requests that it rejects.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use glib::translate::{ToGlibPtr, ToGlibPtrMut};
use gtk::prelude::*;
use kitfleet_host_protocol::{Device, HostError, Message, Page};
use serde_json::{Value, json};
use webkit2gtk::{
    CacheModel, ColorChooserRequestExt, DownloadExt, FileChooserRequestExt, GeolocationPermissionRequest,
    HardwareAccelerationPolicy, NavigationAction, NetworkProxyMode, NetworkProxySettings, OptionMenu,
    PermissionRequestExt, ScriptDialog, ScriptDialogType, Settings, SettingsExt, TLSErrorsPolicy, URIRequestExt,
    UserContentInjectedFrames, UserContentManager, UserContentManagerExt, UserScript, UserScriptInjectionTime,
    UserStyleLevel, UserStyleSheet, WebContext, WebContextExt, WebProcessTerminationReason, WebView, WebViewExt,
    WebsiteDataManager, WebsiteDataManagerExt,
};

use crate::acknowledgement::{self, Acknowledgements};
use crate::channel::Output;
use crate::console::Console;
use crate::extension::{self, Extension};
use crate::live::{Live, asked};
use crate::navigation::{self, Navigation};
use crate::pointer::{MARK, Pointer};
use crate::script::{self, Scripts};
use crate::submissions::{self, Submissions};
use crate::{Arguments, emulation, failure, screen};

/// Address without a listener. A browser has no egress route before it is configured.
const NOWHERE: &str = "socks5://127.0.0.1:1";

/// Position outside of the screen, in pixels of either scale.
pub const BESIDE: i32 = 1_000;

/// Maximum time for a page to return its title.
const TITLE_WITHIN: Duration = Duration::from_millis(100);

/// Maximum time for a page to get its new size.
const LAYOUT_WITHIN: Duration = Duration::from_secs(2);

/// The web view and its state. It is used on the main loop only.
pub struct Browser {
    pub view: WebView,
    pub navigation: Navigation,
    pub scripts: Scripts,
    pub acknowledgements: Acknowledgements,
    pub pointer: Pointer,
    pub emulation: emulation::Current,
    pub submissions: Submissions,
    pub extension: Extension,
    pub console: Console,
    pub live: Live,
    /// Folder for everything that the browser writes.
    pub directory: PathBuf,
    pub window: gtk::Window,
    pub context: WebContext,
    settings: Settings,
    /// Scripts that are injected into pages.
    pub content: UserContentManager,
    configured: Cell<bool>,
    /// Maximum lengths of an address and of a title, in characters.
    lengths: Cell<(usize, usize)>,
}

/// Parts of a desktop's browser that a phone does not have. They would receive taps that are meant for the page: scroll
/// bars lie over the content, and the buttons of a narrow number field cover it.
const DESKTOP_PARTS: &str = "
::-webkit-scrollbar { display: none !important; }
::-webkit-inner-spin-button, ::-webkit-outer-spin-button { display: none !important; }
";

/// Variable with the list of EGL implementations.
const OPENGL_VENDORS: &str = "__EGL_VENDOR_LIBRARY_FILENAMES";

impl Browser {
    /// Starts WebKit with a blank page, and sends [`Message::Ready`] when it has loaded.
    pub fn start(arguments: &Arguments, output: Output) -> Result<Rc<Self>, String> {
        // The search for OpenGL would load an implementation that this process does not use, and that takes more memory
        // than all the rest. The pages' processes start later, without this variable.
        glib::setenv(OPENGL_VENDORS, "/dev/null", true).map_err(|error| error.to_string())?;
        let context = context(arguments)?;
        let extension = Extension::load(&context, &arguments.extension_dir)?;
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
            pointer: Pointer::default(),
            emulation: emulation::Current::default(),
            submissions: Submissions::default(),
            extension,
            console: Console::default(),
            live: Live::default(),
            directory: arguments.data_dir.clone(),
            context,
            settings,
            content: scripts,
            configured: Cell::new(false),
            lengths: Cell::default(),
        });
        browser.listen();
        extension::listen(&browser);
        browser.refuse();
        emulation::provide_position(&browser);
        browser.view.connect_web_process_terminated({
            let output = output.clone();
            move |_, reason| {
                // The host ends the web process itself at its exit.
                if reason != WebProcessTerminationReason::TerminatedByApi {
                    output.send(&Message::WebProcessTerminated { reason: format!("{reason:?}") });
                    gtk::main_quit();
                }
            }
        });
        navigation::follow(&browser);
        // The page's process starts while GTK loads its theme and its fonts.
        let weak = Rc::downgrade(&browser);
        navigation::load_blank(&browser, move || {
            let Some(browser) = weak.upgrade() else { return };
            if browser.extension.is_ready() {
                output.send(&Message::Ready);
            } else {
                browser.extension.is_missing.set(true);
                gtk::main_quit();
            }
        });
        browser.show();
        Ok(browser)
    }

    /// Configures the blank host as a device, and waits until its page has the device's size.
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
        self.extension.set_accept_language(device.accept_language.clone());
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

    /// True when [`Self::configure`] was called. Before that there is no egress route.
    pub fn is_configured(&self) -> bool {
        self.configured.get()
    }

    pub async fn page(self: &Rc<Self>) -> Page {
        let (_, most) = self.lengths.get();
        // WebKit receives a title slightly later than the page has it. A page that is too busy to answer has its
        // previous title.
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

    /// Current address, truncated, and whether it was truncated.
    pub fn uri(&self) -> (String, bool) {
        let (most, _) = self.lengths.get();
        cut(self.view.uri().map(String::from).unwrap_or_default(), most)
    }

    /// An address, truncated.
    pub fn short_uri(&self, uri: String) -> String {
        let (most, _) = self.lengths.get();
        cut(uri, most).0
    }

    /// Current title that WebKit has received, truncated.
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

    /// Shows the window and marks it as active. X has no window manager that would do so, and an inactive page fires no
    /// focus events.
    fn show(&self) {
        self.window.show_all();
        self.view.grab_focus();
        activate(&self.window);
        // The display is never visible, so GTK need not copy painted pages to it.
        if let Some(surface) = self.surface() {
            surface.freeze_updates();
        }
    }

    pub fn surface(&self) -> Option<gdk::Window> {
        self.window.window()
    }

    /// Receives the reports of the listeners in the isolated world.
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
        self.content.add_style_sheet(&UserStyleSheet::new(
            DESKTOP_PARTS,
            UserContentInjectedFrames::AllFrames,
            UserStyleLevel::User,
            &[],
            &[],
        ));
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

    /// Rejects or answers everything that would wait for a person, or affect more than the page.
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
        let browser = Rc::downgrade(self);
        self.view.connect_permission_request(move |_, request| {
            let has_position = browser.upgrade().is_some_and(|browser| browser.emulation.has_position());
            if has_position && request.is::<GeolocationPermissionRequest>() {
                request.allow();
            } else {
                request.deny();
            }
            true
        });
        self.view.connect_authenticate(|_, request| {
            // Cancelling would end the load. Without credentials the load continues to the server's error page. SAFETY:
            // the request is valid, and the call accepts null for no credentials.
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
        // The bindings of these two signals panic when no event caused the menu.
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

    /// Loads in this view the page that a person's tap would open in another window, because a session has one view. A
    /// window that a page opens by itself is a popup, and is dropped.
    fn load_in_place(self: &Rc<Self>, action: &NavigationAction) {
        let Some(request) = action.clone().request() else { return };
        let loadable = request.uri().is_some_and(|uri| uri.starts_with("http:") || uri.starts_with("https:"));
        if action.is_user_gesture() && loadable {
            let view = self.view.clone();
            // WebKit is still handling the request for a window.
            glib::idle_add_local_once(move || view.load_request(&request));
        }
    }
}

/// Truncates a text to a number of characters. Returns whether it was truncated.
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
    // A session loads few pages and seldom the same one again, so memory for a cache is better used for another session.
    context.set_cache_model(CacheModel::DocumentViewer);
    context.set_sandbox_enabled(arguments.sandbox);
    manager.set_tls_errors_policy(TLSErrorsPolicy::Fail);
    use_proxy(&manager, NOWHERE);
    Ok(context)
}

/// Routes all traffic through the proxy, without exceptions, including loopback addresses.
fn use_proxy(manager: &WebsiteDataManager, proxy: &str) {
    let mut settings = NetworkProxySettings::new(Some(proxy), &[]);
    manager.set_network_proxy_settings(NetworkProxyMode::Custom, Some(&mut settings));
}

fn settings() -> Settings {
    let settings = Settings::new();
    settings.set_hardware_acceleration_policy(HardwareAccelerationPolicy::Never);
    settings.set_enable_developer_extras(false);
    // WebRTC's UDP traffic and DNS prefetching would bypass the proxy.
    settings.set_enable_webrtc(false);
    settings.set_enable_media_stream(false);
    settings.set_enable_dns_prefetching(false);
    settings.set_enable_page_cache(false);
    settings.set_enable_fullscreen(false);
    settings.set_enable_smooth_scrolling(false);
    settings.set_javascript_can_open_windows_automatically(false);
    settings.set_allow_top_navigation_to_data_urls(false);
    enable_feature(&settings, c"ScreenOrientationAPI");
    settings
}

/// Enables a feature of WebKit that has no property, if this version has it.
fn enable_feature(settings: &Settings, name: &CStr) {
    // SAFETY: the list owns its features, and is released after their last use. The name is a text that ends in NUL.
    unsafe {
        let features = webkit_settings_get_all_features();
        for index in 0..webkit_feature_list_get_length(features) {
            let feature = webkit_feature_list_get(features, index);
            if CStr::from_ptr(webkit_feature_get_identifier(feature)) == name {
                webkit_settings_set_feature_enabled(settings.to_glib_none().0, feature, glib::ffi::GTRUE);
            }
        }
        webkit_feature_list_unref(features);
    }
}

/// Opaque types of WebKit, which the bindings do not have.
#[repr(C)]
struct WebKitFeatureList(c_void);
#[repr(C)]
struct WebKitFeature(c_void);

// The functions exist since WebKitGTK 2.42.
unsafe extern "C" {
    fn webkit_settings_get_all_features() -> *mut WebKitFeatureList;
    fn webkit_feature_list_get_length(list: *mut WebKitFeatureList) -> usize;
    fn webkit_feature_list_get(list: *mut WebKitFeatureList, index: usize) -> *mut WebKitFeature;
    fn webkit_feature_list_unref(list: *mut WebKitFeatureList);
    fn webkit_feature_get_identifier(feature: *mut WebKitFeature) -> *const c_char;
    fn webkit_settings_set_feature_enabled(
        settings: *mut webkit2gtk_sys::WebKitSettings,
        feature: *mut WebKitFeature,
        enabled: glib::ffi::gboolean,
    );
}

/// Creates a window that contains only the view.
fn window(view: &WebView, (width, height): (i32, i32)) -> gtk::Window {
    let window = gtk::Window::new(gtk::WindowType::Toplevel);
    window.set_decorated(false);
    window.set_default_size(width, height);
    // The window is outside of the screen, where nothing is drawn and no pointer is. WebKit renders pictures itself.
    window.move_(BESIDE, BESIDE);
    window.add(view);
    window
}

fn activate(window: &gtk::Window) {
    let Some(surface) = window.window() else { return };
    let mut event = gdk::Event::new(gdk::EventType::FocusChange);
    // SAFETY: GDK made the event with this type, so it has this layout. The event owns the reference to its window.
    unsafe {
        let raw: *mut gdk::ffi::GdkEvent = event.to_glib_none_mut().0;
        let focus: *mut gdk::ffi::GdkEventFocus = raw.cast();
        (*focus).window = surface.to_glib_full();
        (*focus).in_ = 1;
    }
    // GTK warns about events without a device.
    event.set_device(surface.display().default_seat().and_then(|seat| seat.keyboard()).as_ref());
    gtk::main_do_event(&mut event);
}

/// Answers a dialog when no person sends input: it is dismissed, and a page may always be left.
pub fn answer(dialog: &ScriptDialog) {
    if dialog.dialog_type() == ScriptDialogType::BeforeUnloadConfirm {
        dialog.confirm_set_confirmed(true);
    }
}

/// Overrides properties that WebKit derives from Linux or from a mouse, and adds those that only phones have.
///
/// Each getter is a proxy of WebKit's own one, so that it has the same name and throws the same errors.
/// `Function.prototype.toString` is also a proxy, because a proxy would otherwise be printed as such. The functions that
/// the proxies call are kept in this scope, where no page can change them.
fn disguise(device: &Device) -> String {
    let properties: [(&str, Value); 2] =
        [("platform", json!(device.platform)), ("maxTouchPoints", json!(device.max_touch_points))];
    let properties = json!(properties);
    format!(
        "{{
  const {{ apply }} = Reflect;
  const natives = [];
  const replaceText = String.prototype.replace;
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
  // Mouse events that accompany a touch are marked by their place on the screen (`pointer.rs`).
  const {{ get: place }} = Object.getOwnPropertyDescriptor(MouseEvent.prototype, 'screenX');
  const atOrigin = (value) => (value >= {BESIDE} ? value - {BESIDE} : value);
  replace(MouseEvent.prototype, 'screenX', 'get', (native, self, list) => atOrigin(apply(native, self, list) % {MARK}));
  replace(MouseEvent.prototype, 'screenY', 'get', (native, self, list) => atOrigin(apply(native, self, list)));
  replace(PointerEvent.prototype, 'pointerType', 'get', (native, self, list) => {{
    const type = apply(native, self, list);
    return type === 'mouse' && apply(place, self, []) < 2 * {MARK} ? 'touch' : type;
  }});
  // A window of a phone is at the origin of its screen.
  for (const name of ['screenX', 'screenY', 'screenLeft', 'screenTop']) {{
    replace(globalThis, name, 'get', (native, self, list) => (apply(native, self, list), 0));
  }}
  // Safari on iOS has notifications in web applications of the home screen only.
  delete globalThis.Notification;
  const {{ get: online }} = Object.getOwnPropertyDescriptor(Navigator.prototype, 'onLine');
  const standalone = new Proxy(online, {{
    apply: (target, self, list) => (apply(target, self, list), false),
    get: (target, name) => (name === 'name' ? 'get standalone' : target[name]),
  }});
  natives[natives.length] = {{ proxy: standalone, native: online, from: 'onLine', to: 'standalone' }};
  Object.defineProperty(Navigator.prototype, 'standalone', {{ get: standalone, set: undefined, enumerable: true, configurable: true }});
  // The orientation of a phone, by the size of its screen.
  const sides = ['width', 'height'].map((name) => Object.getOwnPropertyDescriptor(Screen.prototype, name).get);
  const {{ screen }} = globalThis;
  const isLandscape = () => apply(sides[0], screen, []) > apply(sides[1], screen, []);
  const turn = () => (isLandscape() ? 90 : 0);
  if (globalThis.ScreenOrientation) {{
    const type = () => (isLandscape() ? 'landscape-primary' : 'portrait-primary');
    replace(ScreenOrientation.prototype, 'type', 'get', (native, self, list) => (apply(native, self, list), type()));
    replace(ScreenOrientation.prototype, 'angle', 'get', (native, self, list) => (apply(native, self, list), turn()));
  }}
  const {{ get: width }} = Object.getOwnPropertyDescriptor(globalThis, 'innerWidth');
  const angle = new Proxy(width, {{
    apply: (target, self, list) => (apply(target, self, list), turn()),
    get: (target, name) => (name === 'name' ? 'get orientation' : target[name]),
  }});
  natives[natives.length] = {{ proxy: angle, native: width, from: 'innerWidth', to: 'orientation' }};
  Object.defineProperty(globalThis, 'orientation', {{ get: angle, set: undefined, enumerable: true, configurable: true }});
  let handler = null;
  Object.defineProperty(globalThis, 'onorientationchange', {{
    get: () => handler,
    set: (value) => {{ handler = typeof value === 'function' ? value : null; }},
    enumerable: true,
    configurable: true,
  }});
  const dispatch = EventTarget.prototype.dispatchEvent;
  const [NativeEvent, window, orientation] = [Event, globalThis, screen.orientation];
  let before = turn();
  addEventListener('resize', () => {{
    if (turn() === before) return;
    before = turn();
    const event = new NativeEvent('orientationchange');
    if (handler) apply(handler, window, [event]);
    apply(dispatch, window, [event]);
    if (orientation) apply(dispatch, orientation, [new NativeEvent('change')]);
  }}, true);
  replace(Function.prototype, 'toString', 'value', (native, self, list) => {{
    for (let index = 0; index < natives.length; index++) {{
      if (natives[index].proxy !== self) continue;
      const {{ native: real, from, to }} = natives[index];
      const text = apply(native, real, list);
      return from ? apply(replaceText, text, [from, to]) : text;
    }}
    return apply(native, self, list);
  }});
}}"
    )
}
