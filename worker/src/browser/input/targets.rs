//! Search for the point of the page where an input reaches its element.

use kitfleet_types::operations::{Element, Obstacle, Point};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use crate::browser::OperationEnd;
use crate::browser::page::{self, POLL, PageQuery};
use crate::browser::webkit::Webkit;

/// A covered field is focused without a tap after as many attempts.
pub(super) const PATIENCE: u32 = 10;

/// The page may have scrolled back, or show an element that it covered before.
const SCROLL_EVERY: u32 = 10;

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum TargetState {
    Absent,
    Hidden,
    Moving,
    Outside(ElementPosition),
    Covered(ElementPosition),
    Ready(ElementPosition),
}

#[derive(Debug, Clone, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "a script reports independent facts")]
pub(super) struct ElementPosition {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) path: Vec<(f64, f64)>,
    pub(super) takes: InputKind,
    pub(super) multiline: bool,
    /// True when the element is disabled or read-only.
    pub(super) locked: bool,
    pub(super) disabled: bool,
    pub(super) has_focus: bool,
    /// A person or an operation has put the caret into the element since it has the focus.
    pub(super) entered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InputKind {
    Text,
    Choice,
    /// A picker sets the value, which has a form of its own.
    Value,
    Nothing,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) at: Option<Point>,
    pub(super) path: &'a [Point],
    /// True when a touch follows that must reach the element.
    pub(super) aims: bool,
    pub(super) scrolls: bool,
    /// True when a point that something covers is good too.
    pub(super) covered_too: bool,
}

impl Search<'_> {
    pub(super) fn attempt(attempt: u32) -> Self {
        let scrolls = attempt.is_multiple_of(SCROLL_EVERY);
        Self { at: None, path: &[], aims: false, scrolls, covered_too: false }
    }
}

impl ElementPosition {
    fn nothing() -> Self {
        Self {
            x: 0.0,
            y: 0.0,
            width: 0.0,
            height: 0.0,
            path: Vec::new(),
            takes: InputKind::Nothing,
            multiline: false,
            locked: false,
            disabled: false,
            has_focus: false,
            entered: false,
        }
    }
}

impl Webkit {
    /// Without an element, returns the point of the viewport.
    pub(super) async fn place(
        &mut self,
        element: Option<&Element>,
        field: &str,
        search: Search<'_>,
    ) -> Result<ElementPosition, OperationEnd> {
        let Some(element) = element else {
            let path = search.path.iter().map(|at| (at.x, at.y)).collect();
            let (width, height) = (f64::from(self.viewport.width), f64::from(self.viewport.height));
            let (x, y) = match search.at {
                Some(at) => self.within_viewport(at, "action.at")?,
                None => (width / 2.0, height / 2.0),
            };
            return Ok(ElementPosition { x, y, width, height, path, ..ElementPosition::nothing() });
        };
        let field = element.field(field);
        for attempt in 0u32.. {
            let search = Search { scrolls: search.scrolls && attempt.is_multiple_of(SCROLL_EVERY), ..search };
            match self.reach(PageQuery::written(element, &field), search).await? {
                Some(TargetState::Ready(place)) => return Ok(place),
                Some(TargetState::Covered(place)) if search.covered_too => return Ok(place),
                _ => sleep(POLL).await,
            }
        }
        unreachable!("the loop has no end")
    }

    pub(super) fn within_viewport(&mut self, at: Point, field: &str) -> Result<(f64, f64), OperationEnd> {
        let (width, height) = (f64::from(self.viewport.width), f64::from(self.viewport.height));
        if !(0.0..width).contains(&at.x) || !(0.0..height).contains(&at.y) {
            let message = format!("must be inside the viewport, which has {width} by {height} CSS pixels");
            return Err(OperationEnd::invalid(field, message));
        }
        self.touched = (at.x, at.y);
        Ok(self.touched)
    }

    /// Looks for a point where the element can be tapped.
    pub(super) async fn reach(
        &mut self,
        target: PageQuery<'_>,
        search: Search<'_>,
    ) -> Result<Option<TargetState>, OperationEnd> {
        if self.obstacle.is_empty() {
            self.obstacle = "the page does not answer";
        }
        let Search { at, path, aims, scrolls, .. } = search;
        let input = self.input(json!({ "target": target, "at": at, "path": path, "aims": aims, "scrolls": scrolls }));
        let reached = page::ask(&self.host, page::REACH.about(target), &input).await?;
        match reached {
            None => self.obstacle = "the page does not answer",
            Some(TargetState::Absent) => self.record_obstacle(Obstacle::NotFound, "no element matches"),
            Some(TargetState::Hidden) => self.record_obstacle(Obstacle::NotVisible, "the element is not visible"),
            Some(TargetState::Moving) => self.record_obstacle(Obstacle::Moving, "the element is still moving"),
            Some(TargetState::Outside(_)) => {
                self.record_obstacle(Obstacle::Outside, "the element cannot be scrolled into view");
            }
            Some(TargetState::Covered(_)) => self.record_obstacle(Obstacle::Covered, "another element covers it"),
            Some(TargetState::Ready(_)) => (self.obstacle, self.reason) = ("", None),
        }
        Ok(reached)
    }

    /// Records why an action cannot be performed now.
    pub(super) fn record_obstacle(&mut self, reason: Obstacle, detail: &'static str) {
        (self.obstacle, self.reason) = (detail, Some(reason));
    }
}
