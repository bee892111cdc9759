//! Progress of a page's load, for waits of the worker.

use std::rc::Rc;
use std::time::Instant;

use kitfleet_host_protocol::{Lifecycle, LoadProgress, PageErrorKind};

use super::decisions::wait_for_decision;
use super::state::LoadStage;
use crate::browser::Page;

/// A page that has loaded gets a short time to begin another load, because its last input or a timer may have caused one.
pub async fn read(page: &Rc<Page>) -> LoadProgress {
    let progress = current(page);
    if !progress.loaded {
        return progress;
    }
    wait_for_decision(page).await;
    current(page)
}

fn current(page: &Page) -> LoadProgress {
    let navigation = &page.navigation;
    let lifecycle = navigation.lifecycle();
    let has_failed = match &lifecycle {
        Some(Lifecycle::Errored { error }) => error.kind != PageErrorKind::Http,
        _ => false,
    };
    let stage = navigation.stage.get();
    let loaded = stage == LoadStage::Done
        && !navigation.has_pending_load()
        && lifecycle != Some(Lifecycle::Loading)
        && !has_failed;
    LoadProgress {
        dom_content_loaded: loaded || (stage == LoadStage::Committed && navigation.content_loaded.get()),
        loaded,
        network_idle: loaded && navigation.requests.borrow().is_idle(Instant::now()),
        has_failed,
    }
}
