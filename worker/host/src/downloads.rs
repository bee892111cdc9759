//! Downloads of pages: files in the browser's folder with names of ours.
//!
//! WebKit writes a file beside its place and moves it there when it is complete. The host ends a download that exceeds a
//! limit while it runs, so that no file is larger than allowed by more than one read.

pub mod state;

use std::fs;
use std::rc::Rc;

use kitfleet_host_protocol::{DownloadEntry, DownloadError, DownloadStatus, PageEventBody};
use webkit2gtk::{Download, DownloadExt, URIRequestExt, URIResponseExt, WebContextExt};

use self::state::FOLDER;
use crate::browser::Browser;
use crate::clock::now_us;
use crate::pages;
use crate::text::cut;

/// WebKit's ending for a file that is not complete.
const INCOMPLETE: &str = ".wkdownload";

/// In characters, of a file name or a media type. A file system allows names of 255 bytes.
const MAX_CHARS: usize = 255;

/// Nothing suggests a name for the file.
const UNNAMED: &str = "download";

pub fn listen(browser: &Rc<Browser>) {
    let weak = Rc::downgrade(browser);
    browser.context.connect_download_started(move |_, download| match weak.upgrade() {
        Some(browser) => begin(&browser, download),
        None => download.cancel(),
    });
}

fn begin(browser: &Rc<Browser>, download: &Download) {
    let downloads = &browser.downloads;
    let uri = download.request().and_then(|request| request.uri()).map(String::from).unwrap_or_default();
    let entry = downloads.add(browser.short_uri(uri.clone()), now_us());
    if let Some(page) = download.web_view().and_then(|view| browser.pages.of_view(&view)) {
        page.navigation.note_download(&uri, entry.id);
        pages::close_without_document(&page);
    }
    let id = entry.id;
    browser.recording.note(PageEventBody::DownloadStarted(entry.clone()));
    if entry.status == DownloadStatus::Failed {
        note_end(browser, id);
        return download.cancel();
    }
    let weak = Rc::downgrade(browser);
    download.connect_decide_destination(move |download, suggested| {
        let place = weak.upgrade().and_then(|browser| choose_place(&browser, download, id, suggested));
        match place {
            Some(uri) => download.set_destination(&uri),
            None => download.cancel(),
        }
        true
    });
    let weak = Rc::downgrade(browser);
    download.connect_received_data(move |download, _| {
        let Some(browser) = weak.upgrade() else { return };
        let bytes = download.received_data_length();
        if browser.downloads.exceeds(id, bytes) {
            fail(&browser, download, id, DownloadError::TooLarge);
        } else {
            browser.downloads.change(id, |entry| entry.bytes = bytes);
        }
    });
    let weak = Rc::downgrade(browser);
    download.connect_failed(move |_, error| {
        if let Some(browser) = weak.upgrade()
            && browser.downloads.fail(id, kind(error))
        {
            remove_files(&browser, id);
            note_end(&browser, id);
        }
    });
    let weak = Rc::downgrade(browser);
    download.connect_finished(move |download| {
        if let Some(browser) = weak.upgrade() {
            finish(&browser, id, announced_length(download));
        }
    });
}

/// Returns the address of the file to write, or `None` to end the download.
fn choose_place(browser: &Browser, download: &Download, id: u32, suggested: &str) -> Option<String> {
    let response = download.response();
    let content_type = response.as_ref().and_then(URIResponseExt::mime_type).map(String::from);
    let status = response.as_ref().map_or(0, URIResponseExt::status_code);
    let announced = response.as_ref().map_or(0, URIResponseExt::content_length);
    browser.downloads.change(id, |entry| {
        let name = if suggested.is_empty() { UNNAMED } else { suggested };
        entry.file_name = cut(name.to_owned(), MAX_CHARS).0;
        entry.content_type = content_type.map(|kind| cut(kind, MAX_CHARS).0).filter(|kind| !kind.is_empty());
    })?;
    let folder = browser.directory.join(FOLDER);
    let error = if status >= 400 {
        DownloadError::Network
    } else if browser.downloads.exceeds(id, announced) {
        DownloadError::TooLarge
    } else if fs::create_dir_all(&folder).is_err() {
        DownloadError::Disk
    } else {
        return glib::filename_to_uri(folder.join(id.to_string()), None).ok().map(String::from);
    };
    if browser.downloads.fail(id, error) {
        note_end(browser, id);
    }
    None
}

fn note_end(browser: &Browser, id: u32) {
    if let Some(entry) = browser.downloads.find(id) {
        browser.recording.note(PageEventBody::DownloadEnded(entry));
    }
}

/// Removes the received bytes.
fn fail(browser: &Browser, download: &Download, id: u32, error: DownloadError) {
    if browser.downloads.fail(id, error) {
        download.cancel();
        remove_files(browser, id);
        note_end(browser, id);
    }
}

/// Length of the file, if the response has one. The length of an encoded response is not that of its file.
fn announced_length(download: &Download) -> Option<u64> {
    let response = download.response()?;
    let headers = response.http_headers()?;
    let is_encoded = headers.one("content-encoding").is_some();
    Some(response.content_length()).filter(|length| *length > 0 && !is_encoded)
}

/// WebKit reports the end after a failure too, after the last bytes without their number, and when
/// the server ends the connection too early. A file that is shorter than `announced` is not complete.
fn finish(browser: &Browser, id: u32, announced: Option<u64>) {
    let file = browser.directory.join(FOLDER).join(id.to_string());
    let size = file.symlink_metadata().ok().filter(fs::Metadata::is_file).map(|metadata| metadata.len());
    let error = match size {
        None => Some(DownloadError::Disk),
        Some(size) if announced.is_some_and(|announced| size < announced) => Some(DownloadError::Network),
        Some(size) if browser.downloads.exceeds(id, size) => Some(DownloadError::TooLarge),
        Some(_) => None,
    };
    let complete = |entry: &mut DownloadEntry| {
        entry.bytes = size.unwrap_or_default();
        entry.status = DownloadStatus::Complete;
    };
    let has_ended = error
        .map_or_else(|| browser.downloads.change(id, complete).is_some(), |error| browser.downloads.fail(id, error));
    if has_ended {
        note_end(browser, id);
    }
    if error.is_some() || !has_ended {
        remove_files(browser, id);
    }
}

fn remove_files(browser: &Browser, id: u32) {
    let folder = browser.directory.join(FOLDER);
    for name in [id.to_string(), format!("{id}{INCOMPLETE}")] {
        // Usually one of them does not exist.
        let _ = fs::remove_file(folder.join(name));
    }
}

fn kind(error: &glib::Error) -> DownloadError {
    match error.kind::<webkit2gtk::DownloadError>() {
        Some(webkit2gtk::DownloadError::CancelledByUser) => DownloadError::Cancelled,
        Some(webkit2gtk::DownloadError::Destination) => DownloadError::Disk,
        _ => DownloadError::Network,
    }
}
