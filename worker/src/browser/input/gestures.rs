//! Hovers, swipes, drags and scrolling.

use kitfleet_host_protocol::{
    DragOutcome, DragPoint, HostCommand, MouseKind, MouseStep, TouchOutcome, TouchPhase, TouchStep,
};
use kitfleet_types::operations::{self, DragCourse, Element, Point, PointerKind};
use serde_json::json;
use tokio::time::{Instant as TokioInstant, sleep};

use super::targets::Search;
use crate::browser::OperationEnd;
use crate::browser::page::{self, POLL, PageQuery};
use crate::browser::webkit::Webkit;

/// As a screen reports movements.
const MOVE_MS: u64 = 16;

/// Part of an element that a swipe without a distance moves over.
const SWIPED_PART: f64 = 0.6;

impl Webkit {
    pub(super) async fn hover(&mut self, element: Option<&Element>, at: Option<Point>) -> Result<(), OperationEnd> {
        let place = self.place(element, "action", Search { at, ..Search::attempt(0) }).await?;
        self.delivered = true;
        let step = MouseStep { kind: MouseKind::Move, x: place.x, y: place.y, after_ms: 0 };
        Ok(self.host.call::<()>(HostCommand::Mouse { steps: vec![step] }).await?)
    }

    pub(super) async fn swipe(
        &mut self,
        element: Option<&Element>,
        direction: operations::Direction,
        distance: Option<u32>,
        duration_ms: u64,
    ) -> Result<(), OperationEnd> {
        let place = self.place(element, "action", Search::attempt(0)).await?;
        let (dx, dy, size) = match direction {
            operations::Direction::Up => (0.0, -1.0, place.height),
            operations::Direction::Down => (0.0, 1.0, place.height),
            operations::Direction::Left => (-1.0, 0.0, place.width),
            operations::Direction::Right => (1.0, 0.0, place.width),
        };
        let half = distance.map_or(size * SWIPED_PART, f64::from) / 2.0;
        let (width, height) = (f64::from(self.viewport.width), f64::from(self.viewport.height));
        // A finger cannot leave the screen.
        let inside = |x: f64, y: f64| (x.clamp(1.0, width - 1.0), y.clamp(1.0, height - 1.0));
        let points =
            [inside(place.x - dx * half, place.y - dy * half), inside(place.x + dx * half, place.y + dy * half)];
        self.slide(&points, duration_ms).await
    }

    /// Returns the points of a drag in the viewport.
    pub(super) async fn course(
        &mut self,
        element: Option<&Element>,
        course: &DragCourse,
    ) -> Result<Vec<(f64, f64)>, OperationEnd> {
        let (points, field) = match course {
            DragCourse::Path(path) => {
                let search = Search { at: element.and(path.first().copied()), path, ..Search::attempt(0) };
                (self.place(element, "action", search).await?.path, "action.path")
            }
            DragCourse::To { element: end, at } => {
                // Scrolling to one of the elements moves the other, so both are found again without it.
                let anywhere = Search { covered_too: true, at: *at, ..Search::attempt(0) };
                self.place(Some(end), "action.to", anywhere).await?;
                let start = self.place(element, "action", Search::attempt(0)).await?;
                let end = self.place(Some(end), "action.to", Search { scrolls: false, ..anywhere }).await?;
                (vec![(start.x, start.y), (end.x, end.y)], "action.to")
            }
        };
        for (x, y) in &points {
            self.within_viewport(Point { x: *x, y: *y }, field)?;
        }
        Ok(points)
    }

    async fn slide(&mut self, points: &[(f64, f64)], duration_ms: u64) -> Result<(), OperationEnd> {
        self.obstacle = "the page does not react to the swipe";
        self.delivered = true;
        let (first, last) = (points[0], points[points.len() - 1]);
        let step = |phase, (x, y), after_ms| TouchStep { phase, x, y, after_ms };
        let mut steps = vec![step(TouchPhase::Begin, first, 0)];
        let moves = drag_positions(points, duration_ms).into_iter();
        steps.extend(moves.map(|(at, after_ms)| step(TouchPhase::Update, at, after_ms)));
        steps.push(step(TouchPhase::End, last, MOVE_MS));
        self.host.call::<TouchOutcome>(HostCommand::Touch { steps, aimed: false }).await?;
        self.touched_at = Some(TokioInstant::now());
        Ok(())
    }

    pub(super) async fn drag(
        &mut self,
        points: &[(f64, f64)],
        duration_ms: u64,
        pointer: PointerKind,
    ) -> Result<(), OperationEnd> {
        self.obstacle = "the page does not react to the drag";
        self.delivered = true;
        let point = |(x, y), after_ms| DragPoint { x, y, after_ms };
        let mut course = vec![point(points[0], 0)];
        course.extend(drag_positions(points, duration_ms).into_iter().map(|(at, after_ms)| point(at, after_ms)));
        let has_finger = pointer == PointerKind::Touch;
        let outcome: DragOutcome = self.host.call(HostCommand::Drag { has_finger, points: course }).await?;
        self.touched_at = Some(TokioInstant::now());
        if outcome == DragOutcome::Unfinished {
            self.obstacle = "the page has not ended the drag";
            // The operation ends at its time limit.
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    pub(super) async fn scroll(&mut self, target: Option<PageQuery<'_>>, x: i32, y: i32) -> Result<(), OperationEnd> {
        let input = self.input(json!({ "target": target, "x": x, "y": y }));
        let script = target.map_or(page::SCROLL, |target| page::SCROLL.about(target));
        loop {
            // The script may have scrolled even if its reply is lost, so it runs only once.
            match page::ask_once(&self.host, script, &input).await? {
                Some(true) | None => return Ok(()),
                Some(false) => self.obstacle = "no element matches",
            }
            sleep(POLL).await;
        }
    }
}

/// Each leg takes the same time.
#[allow(clippy::cast_precision_loss, reason = "a drag has at most some hundred points")]
fn drag_positions(points: &[(f64, f64)], duration_ms: u64) -> Vec<((f64, f64), u64)> {
    let legs = points.len().saturating_sub(1).max(1) as u64;
    let steps = (duration_ms / MOVE_MS / legs).max(1);
    let mut course = Vec::new();
    for leg in points.windows(2) {
        for step in 1..=steps {
            let part = step as f64 / steps as f64;
            let at = (leg[0].0 + (leg[1].0 - leg[0].0) * part, leg[0].1 + (leg[1].1 - leg[0].1) * part);
            course.push((at, duration_ms / legs / steps));
        }
    }
    course
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drag_moves_evenly_along_its_points() {
        let course = drag_positions(&[(0.0, 0.0), (100.0, 0.0), (100.0, 50.0)], 320);
        assert_eq!(course.len(), 20);
        assert_eq!((course[9].0, course[19].0), ((100.0, 0.0), (100.0, 50.0)));
        assert_eq!(course.iter().map(|(_, pause)| pause).sum::<u64>(), 320);
        assert_eq!(drag_positions(&[(0.0, 0.0), (1.0, 1.0)], 5), [((1.0, 1.0), 5)]);
    }
}
