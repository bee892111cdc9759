//! Emulation of a session: sizes, and what pages and requests are told.

use std::rc::Rc;
use std::time::{Duration, Instant};

use gtk::prelude::*;
use kitfleet_host_protocol::{Emulation, HostError};
use serde_json::json;

use crate::browser::Browser;
use crate::{extension, failure, screen, script};

/// Maximum time for a page to get its new size.
const LAYOUT_WITHIN: Duration = Duration::from_secs(2);

/// Puts the emulation in force, for the current page too.
pub async fn apply(browser: &Rc<Browser>, emulation: &Emulation) -> Result<(), HostError> {
    extension::set_headers(browser, emulation.extra_headers.clone())?;
    resize(browser, emulation).await
}

/// Gives the window and the screen the sizes of the orientation, and waits until the page has them.
async fn resize(browser: &Rc<Browser>, emulation: &Emulation) -> Result<(), HostError> {
    let Emulation { viewport, screen, .. } = emulation;
    let size = |[width, height]: [u32; 2]| {
        let side = |side: u32| i32::try_from(side).map_err(|_| failure::engine("the size is out of range"));
        Ok::<_, HostError>((side(width)?, side(height)?))
    };
    let (width, height) = size(*viewport)?;
    if browser.window.size() == (width, height) {
        return Ok(());
    }
    screen::resize(size(*screen)?);
    browser.window.resize(width, height);
    let wanted = json!([viewport, screen]);
    let start = Instant::now();
    loop {
        let question = "return [[innerWidth, innerHeight], [screen.width, screen.height]]";
        let sizes = script::evaluate(&browser.pages.active(), question).await?;
        if sizes == wanted {
            return Ok(());
        }
        if start.elapsed() > LAYOUT_WITHIN {
            return Err(failure::engine(format!("the page is {sizes} instead of {wanted}")));
        }
        glib::timeout_future(Duration::from_millis(2)).await;
    }
}
