//! Outcomes of loads, for the commands that wait for them.

use kitfleet_host_protocol::Navigated;

use super::state::LoadDownload;
use crate::browser::Page;

pub fn arrived(page: &Page) -> Navigated {
    let status = Some(page.navigation.status.get()).filter(|status| *status != 0);
    Navigated { final_uri: page.uri().0, status, error: None, download: None }
}

pub fn missed(page: &Page, status: Option<u16>) -> Navigated {
    let uri = page.navigation.missed.borrow().clone();
    let final_uri = if uri.is_empty() { page.uri().0 } else { page.short_uri(uri) };
    let download = match page.navigation.download.get() {
        Some(LoadDownload::Started(id)) => Some(id),
        Some(LoadDownload::Expected) | None => None,
    };
    Navigated { final_uri, status, error: None, download }
}
