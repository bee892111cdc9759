//! File choosers. A chooser that an input opens waits for files of the worker, until the next input or [`OPEN_FOR`].

pub mod state;

use std::path::{Component, Path};
use std::rc::Rc;
use std::time::Duration;

use kitfleet_host_protocol::{ChooserState, HostError, OpenChooser, SelectedFile};
use webkit2gtk::{FileChooserRequest, FileChooserRequestExt};

use self::state::Chooser;
use crate::browser::{Browser, Page};
use crate::{cookies, failure, script};

const OPEN_FOR: Duration = Duration::from_secs(10);

/// Replaces an earlier one.
pub fn open(page: &Rc<Page>, request: &FileChooserRequest) {
    let browser = &page.browser;
    close(browser);
    if page.is_closed() {
        return request.cancel();
    }
    let weak = Rc::downgrade(browser);
    let timer = glib::timeout_add_local_once(OPEN_FOR, move || {
        let chooser = weak.upgrade().and_then(|browser| browser.choosers.open.take());
        // The timer is stopped with its chooser, and has removed itself from the main loop.
        if let Some(Chooser { request, .. }) = chooser {
            request.cancel();
        }
    });
    browser.choosers.open.replace(Some(Chooser { request: request.clone(), page: page.id, timer }));
}

pub fn close(browser: &Browser) {
    if let Some(Chooser { request, timer, .. }) = browser.choosers.open.take() {
        timer.remove();
        request.cancel();
    }
}

pub fn forget(page: &Page) {
    let is_its = page.browser.choosers.open.borrow().as_ref().is_some_and(|chooser| chooser.page == page.id);
    if is_its {
        close(&page.browser);
    }
}

/// The open chooser of the last input.
pub async fn find(browser: &Rc<Browser>) -> Option<OpenChooser> {
    if browser.choosers.open.borrow().is_none() {
        // The page opens it after it has reported the input. It answers this later.
        let _ = script::evaluate(&browser.pages.active(), "").await;
    }
    let open = browser.choosers.open.borrow();
    open.as_ref().map(|chooser| OpenChooser { multiple: chooser.request.selects_multiple() })
}

pub async fn select(browser: &Rc<Browser>, files: &[SelectedFile]) -> Result<ChooserState, HostError> {
    let paths: Vec<String> = files.iter().map(|file| checked(&browser.directory, file)).collect::<Result<_, _>>()?;
    let Some(OpenChooser { multiple }) = find(browser).await else { return Ok(ChooserState::NoChooser) };
    if paths.len() > 1 && !multiple {
        return Ok(ChooserState::Rejected);
    }
    let Some(Chooser { request, page, timer }) = browser.choosers.open.take() else {
        return Ok(ChooserState::NoChooser);
    };
    timer.remove();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    request.select_files(&paths);
    // WebKit passes the files on when the network process has permitted their use, which answers in order.
    cookies::await_network_process(browser).await;
    // The page has received the files before it answers this.
    if let Ok(page) = browser.pages.find(page) {
        let _ = script::evaluate(&page, "").await;
    }
    Ok(ChooserState::Selected)
}

/// A regular file in the browser's folder. The path is absolute.
fn checked(directory: &Path, file: &SelectedFile) -> Result<String, HostError> {
    let relative = Path::new(&file.path);
    let is_below = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let has_name = relative.file_name().is_some_and(|name| name == file.name.as_str());
    if !is_below || !has_name {
        return Err(failure::engine("the file is not in the browser's folder, or has another name"));
    }
    let path = directory.join(relative);
    // A link in place of a folder would lead elsewhere.
    let is_inside = match (path.canonicalize(), directory.canonicalize()) {
        (Ok(real), Ok(directory)) => real == directory.join(relative),
        _ => false,
    };
    if !is_inside || !path.is_file() {
        return Err(failure::engine("the file does not exist"));
    }
    path.to_str().map(str::to_owned).ok_or_else(|| failure::engine("the path is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, name: &str) -> SelectedFile {
        SelectedFile { path: path.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn only_regular_files_below_the_folder_are_selected() {
        let directory = std::env::temp_dir().join(format!("kitfleet-choosers-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("uploads/1")).expect("a folder");
        std::fs::write(directory.join("uploads/1/a.txt"), "a").expect("a file");
        std::os::unix::fs::symlink("/etc/hostname", directory.join("uploads/1/link")).expect("a link");
        assert!(checked(&directory, &file("uploads/1/a.txt", "a.txt")).is_ok());
        for rejected in [
            file("uploads/1/a.txt", "b.txt"),
            file("uploads/1/missing", "missing"),
            file("uploads/1/link", "link"),
            file("uploads/../uploads/1/a.txt", "a.txt"),
            file("/etc/hostname", "hostname"),
            file("uploads/1", "1"),
            file("", ""),
        ] {
            assert!(checked(&directory, &rejected).is_err(), "{rejected:?}");
        }
        std::fs::remove_dir_all(&directory).expect("the folder is removed");
    }
}
