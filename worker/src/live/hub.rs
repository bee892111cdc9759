use std::sync::Arc;

use kitfleet_domain::archetypes::Size;
use kitfleet_types::ids::SessionId;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::pictures::Pictures;
use super::viewer_input::ViewerInput;
use super::viewers::Viewers;
use crate::browser::View;
use crate::sessions::LiveHandle;

/// Inputs that wait for the browser.
const PENDING_INPUTS: usize = 32;

pub struct Hub {
    pub session: SessionId,
    pub seats: Viewers,
    pub pictures: Pictures,
    /// Input of the viewers who may act.
    pub inputs: mpsc::Sender<ViewerInput>,
    /// Cancelled when the browser has ended.
    pub ended: CancellationToken,
    view: View,
    pub look: Notify,
    /// Notified after each check of the viewers.
    pub looked: Notify,
}

pub struct Parts {
    pub stage: LiveHandle,
    pub inputs: mpsc::Receiver<ViewerInput>,
}

impl Hub {
    pub fn new(session: SessionId, stage: &LiveHandle) -> (Arc<Self>, Parts) {
        let stage = LiveHandle { view: stage.view.for_another(), ..stage.clone() };
        let (inputs, waiting) = mpsc::channel(PENDING_INPUTS);
        let hub = Self {
            session,
            seats: Viewers::default(),
            pictures: Pictures::default(),
            inputs,
            ended: CancellationToken::new(),
            view: stage.view.clone(),
            look: Notify::new(),
            looked: Notify::new(),
        };
        (Arc::new(hub), Parts { stage, inputs: waiting })
    }

    /// In CSS pixels.
    pub fn viewport(&self) -> Size {
        self.view.size()
    }

    pub fn recheck(&self) {
        self.look.notify_one();
    }
}
