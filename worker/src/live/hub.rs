use std::sync::Arc;

use kitfleet_domain::archetypes::Size;
use kitfleet_types::ids::SessionId;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::pictures::Pictures;
use super::viewer_input::ViewerInput;
use super::viewers::Viewers;
use crate::browser::View;
use crate::sessions::registry::LiveHandle;

/// Inputs that wait for the browser.
const PENDING_INPUTS: usize = 32;

pub struct Hub {
    pub session: SessionId,
    pub viewers: Viewers,
    pub pictures: Pictures,
    /// Input of the viewers who may act.
    pub inputs: mpsc::Sender<ViewerInput>,
    /// Cancelled when the browser has ended.
    pub ended: CancellationToken,
    view: View,
    pub check_now: Notify,
    /// Notified after each check of the viewers.
    pub looked: Notify,
}

pub struct Parts {
    pub live_handle: LiveHandle,
    pub inputs: mpsc::Receiver<ViewerInput>,
}

impl Hub {
    pub fn new(session: SessionId, live_handle: &LiveHandle) -> (Arc<Self>, Parts) {
        let live_handle = LiveHandle { view: live_handle.view.for_another(), ..live_handle.clone() };
        let (inputs, waiting) = mpsc::channel(PENDING_INPUTS);
        let hub = Self {
            session,
            viewers: Viewers::default(),
            pictures: Pictures::default(),
            inputs,
            ended: CancellationToken::new(),
            view: live_handle.view.clone(),
            check_now: Notify::new(),
            looked: Notify::new(),
        };
        (Arc::new(hub), Parts { live_handle, inputs: waiting })
    }

    /// In CSS pixels.
    pub fn viewport(&self) -> Size {
        self.view.size()
    }

    pub fn recheck(&self) {
        self.check_now.notify_one();
    }
}
