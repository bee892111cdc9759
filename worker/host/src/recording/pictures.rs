//! Recorded pictures: the visible page with one pixel for each CSS pixel, without the parts that the worker covers.
//!
//! The worker finds the parts before and after the page is painted, so that painting and encoding are two commands.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kitfleet_host_protocol::{HostError, MOST_COVERS, PaintedPage, RecordedPicture};

use crate::browser::Browser;
use crate::failure;
use crate::live::painting::SmallPicture;

pub fn paint(browser: &Browser) -> Result<PaintedPage, HostError> {
    let pictures = &browser.recording.pictures;
    pictures.painted.take();
    if !browser.recording.sees_pages() {
        return Ok(PaintedPage { changed: false });
    }
    let picture = {
        let page = browser.pages.active();
        SmallPicture::paint(&page.view, |context| browser.live.draw(&page.view, context))?
    };
    let hash = picture.hash();
    let changed = pictures.recorded.get() != Some(hash);
    if changed {
        pictures.painted.replace(Some((picture, hash)));
    }
    Ok(PaintedPage { changed })
}

/// Encodes on another thread. `None` when there is no painted page, such as after a person has begun to send input.
pub async fn record(
    browser: &Browser,
    quality: u8,
    covers: Vec<[f64; 4]>,
) -> Result<Option<RecordedPicture>, HostError> {
    let pictures = &browser.recording.pictures;
    let Some((mut picture, hash)) = pictures.painted.take() else { return Ok(None) };
    if covers.len() > MOST_COVERS {
        return Err(failure::engine("there are too many covers"));
    }
    pictures.recorded.set(Some(hash));
    let encoding = gio::spawn_blocking(move || {
        for sides in covers {
            picture.cover(sides);
        }
        let jpeg = picture.encode(quality.clamp(1, 100));
        (picture.size(), jpeg)
    });
    let ((width, height), jpeg) = encoding.await.map_err(|_| failure::engine("the encoder panicked"))?;
    let jpeg = STANDARD.encode(jpeg.map_err(failure::engine)?);
    // A person may have begun to send input meanwhile.
    Ok(browser.recording.sees_pages().then_some(RecordedPicture { width, height, jpeg }))
}
