//! Starts the browser with a blank page.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_void};
use std::rc::Rc;

use glib::translate::{ToGlibPtr, ToGlibPtrMut};
use gtk::prelude::*;
use kitfleet_host_protocol::Message;
use webkit2gtk::{
    CacheModel, HardwareAccelerationPolicy, NetworkProxyMode, NetworkProxySettings, Settings, SettingsExt,
    TLSErrorsPolicy, WebContext, WebContextExt, WebsiteDataManager, WebsiteDataManagerExt,
};

use crate::arguments::Arguments;
use crate::browser::{Browser, Pages};
use crate::channel::Output;
use crate::choosers::state::Choosers;
use crate::dialogs::state::Dialogs;
use crate::downloads::state::Downloads;
use crate::emulation::state::Current;
use crate::extension::Extension;
use crate::live::state::Live;
use crate::pointer::marks::BESIDE;
use crate::recording::Recording;
use crate::responses::Responses;
use crate::submissions::state::Submissions;
use crate::{downloads, emulation, navigation, pages};

/// Without a listener, for a browser that is not configured.
const UNUSED_PROXY: &str = "socks5://127.0.0.1:1";

/// Lists EGL implementations.
const OPENGL_VENDORS: &str = "__EGL_VENDOR_LIBRARY_FILENAMES";

/// Sends [`Message::Ready`] when the blank page has loaded.
pub fn start(arguments: &Arguments, output: Output) -> Result<Rc<Browser>, String> {
    // OpenGL would load an implementation that this process does not use, and that takes more memory than all the rest. The
    // pages' processes start later, without this variable.
    glib::setenv(OPENGL_VENDORS, "/dev/null", true).map_err(|error| error.to_string())?;
    let context = context(arguments)?;
    let extension = Extension::load(&context, &arguments.extension_dir)?;
    let settings = settings();
    glib::unsetenv(OPENGL_VENDORS);
    let stack = gtk::Stack::new();
    stack.set_transition_type(gtk::StackTransitionType::None);
    let browser = Rc::new(Browser {
        pages: Pages::default(),
        emulation: Current::default(),
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
    let page = pages::create(&browser, None, None);
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
    show(&browser);
    Ok(browser)
}

/// X has no window manager that would do so, and an inactive page fires no focus events.
fn show(browser: &Browser) {
    browser.window.show_all();
    browser.pages.active().view.grab_focus();
    activate(&browser.window);
    // The display is never visible, so GTK need not copy painted pages to it.
    if let Some(surface) = browser.surface() {
        surface.freeze_updates();
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
pub fn use_proxy(manager: &WebsiteDataManager, proxy: &str) {
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
