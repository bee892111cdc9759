//! Window, and state that all pages share.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use glib::translate::{ToGlibPtr, ToGlibPtrMut};
use gtk::prelude::*;
use kitfleet_host_protocol::{Device, HostError, Message};
use serde_json::{Value, json};
use webkit2gtk::{
    CacheModel, HardwareAccelerationPolicy, NetworkProxyMode, NetworkProxySettings, Settings, SettingsExt,
    TLSErrorsPolicy, UserContentInjectedFrames, UserContentManagerExt, UserScript, UserScriptInjectionTime, WebContext,
    WebContextExt, WebsiteDataManager, WebsiteDataManagerExt,
};

use crate::channel::Output;
use crate::choosers::Choosers;
use crate::dialogs::Dialogs;
use crate::downloads::{self, Downloads};
use crate::extension::Extension;
use crate::live::Live;
use crate::pages::{self, Page, Pages, cut};
use crate::pointer::MARK;
use crate::recording::{self, Recording};
use crate::responses::Responses;
use crate::submissions::Submissions;
use crate::{Arguments, emulation, failure, navigation, screen, script};

/// Without a listener, for a browser that is not configured.
const UNUSED_PROXY: &str = "socks5://127.0.0.1:1";

/// Outside of the screen, in pixels of either scale.
pub const BESIDE: i32 = 1_000;

const LAYOUT_WITHIN: Duration = Duration::from_secs(2);

/// Used on the main loop only.
pub struct Browser {
    pub pages: Pages,
    pub emulation: emulation::Current,
    pub submissions: Submissions,
    pub extension: Extension,
    pub dialogs: Dialogs,
    pub choosers: Choosers,
    pub downloads: Downloads,
    pub responses: Responses,
    pub recording: Recording,
    pub live: Live,
    /// The browser writes nowhere else.
    pub directory: PathBuf,
    pub window: gtk::Window,
    /// Shows the active page.
    pub stack: gtk::Stack,
    pub context: WebContext,
    pub settings: Settings,
    /// Overrides properties in each document. `None` before the browser is configured.
    pub device_script: RefCell<Option<UserScript>>,
    configured: Cell<bool>,
    /// Of an address and of a title, in characters.
    pub lengths: Cell<(usize, usize)>,
    output: Output,
}

/// Lists EGL implementations.
const OPENGL_VENDORS: &str = "__EGL_VENDOR_LIBRARY_FILENAMES";

impl Browser {
    /// Sends [`Message::Ready`] when the blank page has loaded.
    pub fn start(arguments: &Arguments, output: Output) -> Result<Rc<Self>, String> {
        // OpenGL would load an implementation that this process does not use, and that takes more memory than all the rest. The
        // pages' processes start later, without this variable.
        glib::setenv(OPENGL_VENDORS, "/dev/null", true).map_err(|error| error.to_string())?;
        let context = context(arguments)?;
        let extension = Extension::load(&context, &arguments.extension_dir)?;
        let settings = settings();
        glib::unsetenv(OPENGL_VENDORS);
        let stack = gtk::Stack::new();
        stack.set_transition_type(gtk::StackTransitionType::None);
        let browser = Rc::new(Self {
            pages: Pages::default(),
            emulation: emulation::Current::default(),
            submissions: Submissions::default(),
            extension,
            dialogs: Dialogs::default(),
            choosers: Choosers::default(),
            downloads: Downloads::default(),
            responses: Responses::default(),
            recording: Recording::new(output.clone()),
            live: Live::default(),
            directory: arguments.data_dir.clone(),
            window: window(&stack, arguments.viewport),
            stack,
            context,
            settings,
            device_script: RefCell::default(),
            configured: Cell::new(false),
            lengths: Cell::default(),
            output,
        });
        downloads::listen(&browser);
        emulation::provide_position(&browser);
        let page = Page::create(&browser, None, None);
        pages::activate(&page);
        // The page's process starts while GTK loads its theme and its fonts.
        let weak = Rc::downgrade(&browser);
        navigation::load_blank(&page, move || {
            let Some(browser) = weak.upgrade() else { return };
            if browser.extension.is_ready() {
                browser.output.send(&Message::Ready);
            } else {
                browser.extension.is_missing.set(true);
                gtk::main_quit();
            }
        });
        browser.show();
        Ok(browser)
    }

    /// Reports that the process of the active page has ended, and ends the host.
    pub fn end(&self, reason: &str) {
        self.output.send(&Message::WebProcessTerminated { reason: reason.to_owned() });
        gtk::main_quit();
    }

    /// Waits until the page has the device's size.
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
        self.dialogs.set_policy(device.dialogs);
        self.downloads.set_limits(device.downloads);
        let everywhere = UserContentInjectedFrames::AllFrames;
        let device_script =
            UserScript::new(&device_script(&device), everywhere, UserScriptInjectionTime::Start, &[], &[]);
        for page in self.pages.all() {
            page.content.add_script(&device_script);
        }
        self.device_script.replace(Some(device_script));
        if device.is_recorded {
            recording::begin(self);
        }
        self.await_layout(&device).await
    }

    /// Before that there is no egress route.
    pub fn is_configured(&self) -> bool {
        self.configured.get()
    }

    pub fn short_uri(&self, uri: String) -> String {
        let (max, _) = self.lengths.get();
        cut(uri, max).0
    }

    async fn await_layout(self: &Rc<Self>, device: &Device) -> Result<(), HostError> {
        let Device { viewport_width, viewport_height, screen_width, screen_height, .. } = device;
        let wanted = json!([viewport_width, viewport_height, screen_width, screen_height]);
        let start = Instant::now();
        loop {
            let size =
                script::evaluate(&self.pages.active(), "return [innerWidth, innerHeight, screen.width, screen.height]")
                    .await?;
            if size == wanted {
                return Ok(());
            }
            if start.elapsed() > LAYOUT_WITHIN {
                return Err(failure::engine(format!("the page is {size} instead of {wanted}")));
            }
            glib::timeout_future(Duration::from_millis(2)).await;
        }
    }

    /// X has no window manager that would do so, and an inactive page fires no focus events.
    fn show(&self) {
        self.window.show_all();
        self.pages.active().view.grab_focus();
        activate(&self.window);
        // The display is never visible, so GTK need not copy painted pages to it.
        if let Some(surface) = self.surface() {
            surface.freeze_updates();
        }
    }

    pub fn surface(&self) -> Option<gdk::Window> {
        self.window.window()
    }
}

fn context(arguments: &Arguments) -> Result<WebContext, String> {
    let directory = &arguments.data_dir;
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let path = directory.to_str().ok_or_else(|| format!("{} is not UTF-8", directory.display()))?;
    let manager =
        WebsiteDataManager::builder().base_data_directory(path).base_cache_directory(format!("{path}/cache")).build();
    let context = WebContext::builder().website_data_manager(&manager).build();
    // A session seldom loads a page again: memory for a cache is better used for another session.
    context.set_cache_model(CacheModel::DocumentViewer);
    context.set_sandbox_enabled(arguments.sandbox);
    manager.set_tls_errors_policy(TLSErrorsPolicy::Fail);
    use_proxy(&manager, UNUSED_PROXY);
    Ok(context)
}

/// Without exceptions: also for loopback addresses.
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

/// If this version has the feature.
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

fn window(views: &gtk::Stack, (width, height): (i32, i32)) -> gtk::Window {
    let window = gtk::Window::new(gtk::WindowType::Toplevel);
    window.set_decorated(false);
    window.set_default_size(width, height);
    // Outside of the screen, where nothing is drawn and no pointer is. WebKit renders pictures itself.
    window.move_(BESIDE, BESIDE);
    window.add(views);
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

/// Each getter is a proxy of WebKit's own one, so that it has the same name and throws the same errors.
/// `Function.prototype.toString` is also a proxy, because a proxy would otherwise be printed as such. The functions that
/// the proxies call are kept in this scope, where no page can change them.
fn device_script(device: &Device) -> String {
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
  // A finger comes from no element and goes to none.
  const isPointerEvent = Object.prototype.isPrototypeOf.bind(PointerEvent.prototype);
  replace(MouseEvent.prototype, 'relatedTarget', 'get', (native, self, list) => {{
    const target = apply(native, self, list);
    const mark = apply(place, self, []);
    return mark >= {MARK} && mark < 2 * {MARK} && isPointerEvent(self) ? null : target;
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
