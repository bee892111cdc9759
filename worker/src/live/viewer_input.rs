//! Input that a viewer sends for the browser or the lane.

use std::sync::Arc;

use kitfleet_domain::live::Admission;
use kitfleet_domain::live::driving::Change;
use kitfleet_live::messages::Event;

use super::viewers::ViewerId;

pub struct ViewerInput {
    pub viewer: ViewerId,
    pub admission: Arc<Admission>,
    pub what: InputRight,
}

pub enum InputRight {
    /// Already checked against the limits.
    Events(Vec<Event>),
    /// Take over from the AI, or hand back.
    Lane(Change),
}
