//! Recorded pictures: the visible page with one pixel for each CSS pixel, without the parts that the worker covers.
//!
//! The worker finds the parts before and after the page is painted, so that painting and encoding are two commands.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairo::{Context, Region};
use gtk::prelude::*;
use kitfleet_host_protocol::{HostError, MOST_COVERS, PaintedPage, RecordedPicture};

use crate::browser::Browser;
use crate::failure;

pub fn paint(browser: &Browser) -> Result<PaintedPage, HostError> {
    let pictures = &browser.recording.pictures;
    pictures.is_painted.set(false);
    if !browser.recording.sees_pages() {
        return Ok(PaintedPage { changed: false });
    }
    let page = browser.pages.active();
    let is_other_page = pictures.page.replace(page.id) != page.id;
    // A viewer needs the changed areas itself.
    let is_watched = browser.live.is_watched();
    let area = if is_watched { None } else { page.view.window().map(|window| window.update_area()) };
    // Until the painting has succeeded.
    let was_stale = pictures.is_stale.replace(true);
    let area = area.filter(|_| !was_stale && !is_other_page).map(|area| area.unwrap_or_else(Region::create));
    let draw = |context: &Context| browser.live.draw(&page.view, context);
    if pictures.picture.borrow_mut().repaint(&page.view, area.as_ref(), draw)? {
        pictures.is_recorded.set(false);
    }
    pictures.is_stale.set(is_watched);
    let changed = !pictures.is_recorded.get();
    pictures.is_painted.set(changed);
    Ok(PaintedPage { changed })
}

/// Encodes on another thread. `None` when there is no painted page, such as after a person has begun to send input.
pub async fn record(browser: &Browser, covers: Vec<[f64; 4]>) -> Result<Option<RecordedPicture>, HostError> {
    let pictures = &browser.recording.pictures;
    if !pictures.is_painted.take() {
        return Ok(None);
    }
    if covers.len() > MOST_COVERS {
        return Err(failure::engine("there are too many covers"));
    }
    pictures.is_recorded.set(true);
    let picture = pictures.picture.borrow().clone();
    let (width, height) = picture.size();
    let encoding = gio::spawn_blocking(move || picture.encode(&covers));
    let jpeg = encoding.await.map_err(|_| failure::engine("the encoder panicked"))?;
    let jpeg = STANDARD.encode(jpeg.map_err(failure::engine)?);
    // A person may have begun to send input meanwhile.
    Ok(browser.recording.sees_pages().then_some(RecordedPicture { width, height, jpeg }))
}
