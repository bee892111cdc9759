//! Gives the browser the properties of a session.

use std::rc::Rc;
use std::time::{Duration, Instant};

use gtk::prelude::*;
use kitfleet_host_protocol::{Device, HostError};
use serde_json::json;
use webkit2gtk::{
    SettingsExt, UserContentInjectedFrames, UserContentManagerExt, UserScript, UserScriptInjectionTime, WebContextExt,
};

use crate::browser::Browser;
use crate::device_script::device_script;
use crate::launch::use_proxy;
use crate::{failure, screen, script};

const LAYOUT_WITHIN: Duration = Duration::from_secs(2);

/// Waits until the page has the device's size.
pub async fn configure(browser: &Rc<Browser>, device: Device) -> Result<(), HostError> {
    if browser.configured.replace(true) {
        return Err(failure::engine("the host is configured already"));
    }
    browser.lengths.set((device.uri_chars, device.title_chars));
    let size = |value: u32| i32::try_from(value).map_err(|_| failure::engine("the size is out of range"));
    screen::resize((size(device.screen_width)?, size(device.screen_height)?));
    browser.window.resize(size(device.viewport_width)?, size(device.viewport_height)?);
    browser.settings.set_user_agent(Some(&device.user_agent));
    let languages: Vec<&str> = device.languages.iter().map(String::as_str).collect();
    browser.context.set_preferred_languages(&languages);
    browser.extension.set_accept_language(device.accept_language.clone());
    if let Some(manager) = browser.context.website_data_manager() {
        use_proxy(&manager, &device.proxy);
    }
    browser.dialogs.set_policy(device.dialogs);
    browser.downloads.set_limits(device.downloads);
    let everywhere = UserContentInjectedFrames::AllFrames;
    let device_script = UserScript::new(&device_script(&device), everywhere, UserScriptInjectionTime::Start, &[], &[]);
    for page in browser.pages.all() {
        page.content.add_script(&device_script);
    }
    browser.device_script.replace(Some(device_script));
    if device.is_recorded {
        browser.extension.record();
        let script = browser.recording.begin();
        for page in browser.pages.all() {
            page.content.add_script(&script);
        }
    }
    await_layout(browser, &device).await
}

async fn await_layout(browser: &Rc<Browser>, device: &Device) -> Result<(), HostError> {
    let Device { viewport_width, viewport_height, screen_width, screen_height, .. } = device;
    let wanted = json!([viewport_width, viewport_height, screen_width, screen_height]);
    let start = Instant::now();
    loop {
        let size =
            script::evaluate(&browser.pages.active(), "return [innerWidth, innerHeight, screen.width, screen.height]")
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
