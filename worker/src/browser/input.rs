use std::time::{Duration, Instant};

use kitfleet_domain::agents::approvals::depends_on_focus;
use kitfleet_host_protocol::{
    ChooserState, Direction, DragOutcome, DragPoint, Held, HostCommand, HostError, MouseKind, MouseStep, OpenChooser,
    SubmissionRule, TouchOutcome, TouchPhase, TouchStep,
};
use kitfleet_types::files::FileName;
use kitfleet_types::ids::UploadId;
use kitfleet_types::operations::{
    self, Action, DragCourse, Element, Interact, Interacted, KEY_TAKES, Obstacle, Point, PointerKind,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant as TokioInstant, sleep};

use super::OperationEnd;
use super::files::UploadGuard;
use super::host::{CallError, driver_failure};
use super::pace::KeyDelays;
use super::page::{self, POLL, PageQuery};
use super::webkit::{Webkit, milliseconds};

/// A covered field is focused without a tap after as many attempts.
const PATIENCE: u32 = 10;

/// The page may have scrolled back, or show an element that it covered before.
const SCROLL_EVERY: u32 = 10;

/// As a screen reports movements.
const MOVE_MS: u64 = 16;

/// Time after a touch within which GTK may count the next tap as a part of it. GTK's own limit is 400 ms.
const DOUBLE_TAP: Duration = Duration::from_millis(450);

/// Part of an element that a swipe without a distance moves over.
const SWIPED_PART: f64 = 0.6;

/// The page receives the rest as fast as it handles it.
const PACED_KEYS: usize = 200;

/// A page may load something first.
const CHOOSER_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum UploadTarget {
    Absent,
    Disabled,
    Input { multiple: bool },
    Other,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum TargetState {
    Absent,
    Hidden,
    Moving,
    Outside(ElementPosition),
    Covered(ElementPosition),
    Ready(ElementPosition),
}

#[derive(Debug, Clone, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "a script reports independent facts")]
struct ElementPosition {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    path: Vec<(f64, f64)>,
    takes: InputKind,
    multiline: bool,
    /// True when the element is disabled or read-only.
    locked: bool,
    disabled: bool,
    has_focus: bool,
    /// A person or an operation has put the caret into the element since it has the focus.
    entered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum InputKind {
    Text,
    Choice,
    /// A picker sets the value, which has a form of its own.
    Value,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingText {
    Keep,
    Replace,
}

/// An approval permits one load.
fn rule_of(interact: &Interact) -> SubmissionRule {
    match (interact.hold_submissions, interact.approved) {
        (false, _) => SubmissionRule::AllowAll,
        (true, false) => SubmissionRule::HoldAll,
        (true, true) if interact.action.navigates() => SubmissionRule::AllowOneRepeat,
        (true, true) => SubmissionRule::AllowOneForm,
    }
}

/// A tap, or a key that activates an element, without approval.
fn holds_requests(interact: &Interact) -> bool {
    let activates = match &interact.action {
        // A page may send a file as soon as it is selected.
        Action::Tap { .. } | Action::Check { .. } | Action::Drag { .. } | Action::Upload { .. } => true,
        Action::Press { key } => depends_on_focus(key),
        Action::Type { text, .. } | Action::Fill { value: text, .. } => text.contains(['\n', '\r']),
        _ => false,
    };
    rule_of(interact) == SubmissionRule::HoldAll && activates
}

impl Webkit {
    pub(super) async fn interact(&mut self, interact: &Interact, started: Instant) -> Result<Interacted, OperationEnd> {
        if interact.release_submission {
            self.obstacle = "the page does not submit the form that was held back";
            let released = self.release_submission().await?;
            let mut interacted = self.interacted(interact, released, started).await?;
            interacted.page_submission_held = self.held_submission().await?.is_some();
            return Ok(interacted);
        }
        // A dialog blocks the page: the rule for submissions cannot change before the answer.
        if let Action::Dialog { accept, text } = &interact.action {
            return self.answer(interact, (*accept, text.clone()), started).await;
        }
        self.tapped = match &interact.action {
            Action::Tap { element, .. } => element.clone(),
            _ => None,
        };
        // It does not belong to this interaction.
        let held_before = self.set_submission_rule(rule_of(interact), holds_requests(interact)).await?;
        match &interact.action {
            Action::Tap { element: Some(element), at, count, hold_ms } => {
                let hold_ms = hold_ms.unwrap_or_else(|| self.pace.hold_ms());
                self.await_single_taps(*count).await;
                self.tap_with(PageQuery::written(element, &element.field("action")), *at, hold_ms).await?;
                self.tap_again(count.saturating_sub(1), hold_ms).await?;
            }
            Action::Tap { element: None, at, count, hold_ms } => {
                let hold_ms = hold_ms.unwrap_or_else(|| self.pace.hold_ms());
                let at = self.within_viewport(at.unwrap_or_default(), "action.at")?;
                self.await_single_taps(*count).await;
                self.touch(at, false, hold_ms).await?;
                self.tap_again(count.saturating_sub(1), hold_ms).await?;
            }
            Action::Hover { element, at } => self.hover(element.as_ref(), *at).await?,
            Action::Swipe { element, direction, distance, duration_ms } => {
                self.swipe(element.as_ref(), *direction, *distance, *duration_ms).await?;
            }
            Action::Drag { element, course, duration_ms, pointer } => {
                let points = self.course(element.as_ref(), course).await?;
                self.drag(&points, *duration_ms, *pointer).await?;
            }
            Action::Check { element, checked } => {
                self.check(PageQuery::written(element, &element.field("action")), *checked).await?;
            }
            Action::Clear { element } => {
                self.replace_content(PageQuery::written(element, &element.field("action")), "").await?;
            }
            Action::Type { element, text, delay_ms, sensitive } => {
                self.is_sensitive = *sensitive;
                let field = element.field("action");
                let target = PageQuery::written(element, &field);
                let (takes, multiline) = self.enter(target, ExistingText::Keep).await?;
                if takes == InputKind::Value {
                    self.fill_value(target, text, "action.text").await?;
                } else {
                    self.type_text(interact, text, *delay_ms, multiline).await?;
                }
            }
            Action::Fill { element, value } => {
                self.replace_content(PageQuery::written(element, &element.field("action")), value).await?;
            }
            Action::Scroll { element, delta_x, delta_y } => {
                let field = element.as_ref().map(|element| element.field("action")).unwrap_or_default();
                let target = element.as_ref().map(|element| PageQuery::written(element, &field));
                self.scroll(target, *delta_x, *delta_y).await?;
            }
            Action::Press { key } => match self.press(vec![key.clone()]).await {
                Err(CallError::Refused(HostError::UnknownKey { .. })) => {
                    return Err(OperationEnd::invalid(
                        "action.key",
                        "must be a character or the name of a key, after modifiers",
                    ));
                }
                pressed => pressed?,
            },
            Action::Select { element, options, is_list } => {
                self.choose(PageQuery::written(element, &element.field("action")), options, *is_list).await?;
            }
            Action::Dialog { .. } => {}
            Action::Upload { element, upload, attached, .. } => {
                self.upload(element.as_ref(), *upload, attached.as_ref()).await?;
            }
            Action::Back => drop(self.load(HostCommand::GoInHistory(Direction::Back)).await?),
            Action::Forward => drop(self.load(HostCommand::GoInHistory(Direction::Forward)).await?),
            Action::Reload => drop(self.load(HostCommand::Reload).await?),
        }
        let mut interacted = self.interacted(interact, true, started).await?;
        interacted.page_submission_held = held_before;
        if interact.hold_submissions {
            match self.held_submission().await? {
                None => {}
                Some(Held::Form) if !interact.action.touches() => interacted.page_submission_held = true,
                Some(held) => {
                    interacted.submission_held = true;
                    interacted.request_held = held == Held::Request;
                }
            }
        }
        Ok(interacted)
    }

    /// A page may submit long after an input, so the rule applies until the next interaction or navigation. Returns whether a
    /// submission was held that has not been reported.
    pub(super) async fn hold_submissions(&mut self, rule: SubmissionRule) -> Result<bool, OperationEnd> {
        self.set_submission_rule(rule, false).await
    }

    pub(super) async fn set_submission_rule(
        &mut self,
        rule: SubmissionRule,
        requests: bool,
    ) -> Result<bool, OperationEnd> {
        let hold = rule != SubmissionRule::AllowAll;
        if !self.holds_submissions && !hold {
            return Ok(false);
        }
        self.holds_submissions = hold;
        Ok(self.host.call(HostCommand::HoldSubmissions { rule, requests }).await?)
    }

    pub(super) async fn held_submission(&mut self) -> Result<Option<Held>, OperationEnd> {
        Ok(self.host.call(HostCommand::HeldSubmission).await?)
    }

    /// `false` when it no longer exists.
    pub(super) async fn release_submission(&mut self) -> Result<bool, OperationEnd> {
        self.holds_submissions = true;
        Ok(self.host.call(HostCommand::ReleaseSubmission).await?)
    }

    pub(super) async fn interacted(
        &self,
        interact: &Interact,
        ok: bool,
        started: Instant,
    ) -> Result<Interacted, OperationEnd> {
        Ok(Interacted {
            ok,
            kind: interact.action.kind(),
            duration_ms: milliseconds(started),
            url: self.address().await?,
            reason: self.reason.filter(|_| !ok),
            delivered: (!ok).then_some(self.delivered),
            dialogs: Vec::new(),
            dialog: None,
            submission_held: false,
            request_held: false,
            page_submission_held: false,
        })
    }

    pub(super) async fn tap(&mut self, target: PageQuery<'_>) -> Result<(), OperationEnd> {
        let hold_ms = self.pace.hold_ms();
        self.tap_with(target, None, hold_ms).await
    }

    /// Repeats a tap that misses the element.
    pub(super) async fn tap_with(
        &mut self,
        target: PageQuery<'_>,
        at: Option<Point>,
        hold_ms: u64,
    ) -> Result<(), OperationEnd> {
        for attempt in 0.. {
            let search = Search { at, aims: true, ..Search::attempt(attempt) };
            if let Some(TargetState::Ready(place)) = self.reach(target, search).await? {
                self.touched = (place.x, place.y);
                if place.disabled {
                    self.record_obstacle(Obstacle::Disabled, "the element is disabled");
                } else if self.touch(self.touched, true, hold_ms).await? {
                    break;
                }
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Waits before a multiple tap until it is separate from the last touch. Otherwise GTK counts a tap at the same place as its
    /// continuation, and counts only from the second tap at another place.
    async fn await_single_taps(&self, count: u8) {
        if count > 1
            && let Some(last) = self.touched_at
        {
            tokio::time::sleep_until(last + DOUBLE_TAP).await;
        }
    }

    async fn tap_again(&mut self, times: u8, hold_ms: u64) -> Result<(), OperationEnd> {
        for _ in 0..times {
            self.touch(self.touched, false, hold_ms).await?;
        }
        Ok(())
    }

    /// Without an element, returns the point of the viewport.
    async fn place(
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

    fn within_viewport(&mut self, at: Point, field: &str) -> Result<(f64, f64), OperationEnd> {
        let (width, height) = (f64::from(self.viewport.width), f64::from(self.viewport.height));
        if !(0.0..width).contains(&at.x) || !(0.0..height).contains(&at.y) {
            let message = format!("must be inside the viewport, which has {width} by {height} CSS pixels");
            return Err(OperationEnd::invalid(field, message));
        }
        self.touched = (at.x, at.y);
        Ok(self.touched)
    }

    async fn hover(&mut self, element: Option<&Element>, at: Option<Point>) -> Result<(), OperationEnd> {
        let place = self.place(element, "action", Search { at, ..Search::attempt(0) }).await?;
        self.delivered = true;
        let step = MouseStep { kind: MouseKind::Move, x: place.x, y: place.y, after_ms: 0 };
        Ok(self.host.call::<()>(HostCommand::Mouse { steps: vec![step] }).await?)
    }

    async fn swipe(
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
    async fn course(
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

    async fn drag(
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

    async fn check(&mut self, target: PageQuery<'_>, wanted: bool) -> Result<(), OperationEnd> {
        let input = self.input(json!({ "target": target, "checked": wanted }));
        let mut is_tapped = false;
        loop {
            match page::ask(&self.host, page::CHECKED.about(target), &input).await? {
                None => self.obstacle = "the page does not answer",
                Some(CheckState::Absent) => self.record_obstacle(Obstacle::NotFound, "no element matches"),
                Some(CheckState::Hidden) => self.record_obstacle(Obstacle::NotVisible, "the element is not visible"),
                Some(CheckState::Known { checked }) if checked == Some(wanted) => return Ok(()),
                Some(CheckState::Known { .. }) if is_tapped => {
                    self.obstacle = "the control does not change its state";
                }
                Some(CheckState::Known { .. }) => {
                    self.tap(target).await?;
                    is_tapped = true;
                    continue;
                }
            }
            sleep(POLL).await;
        }
    }

    pub(super) async fn focus(&mut self, target: PageQuery<'_>, existing: ExistingText) -> Result<(), OperationEnd> {
        self.enter(target, existing).await.map(drop)
    }

    /// Returns the effect of keys, and whether the field has several lines.
    async fn enter(
        &mut self,
        target: PageQuery<'_>,
        existing: ExistingText,
    ) -> Result<(InputKind, bool), OperationEnd> {
        let mut covered = 0;
        for attempt in 0.. {
            let place = match self.reach(target, Search { aims: true, ..Search::attempt(attempt) }).await? {
                Some(TargetState::Ready(place)) => Some(place),
                Some(TargetState::Covered(place) | TargetState::Outside(place)) => {
                    covered += 1;
                    (covered > PATIENCE || place.has_focus).then_some(place)
                }
                _ => None,
            };
            if let Some(place) = place
                && self.focus_at(target, &place, covered > 0, existing).await?
            {
                return Ok((place.takes, place.multiline));
            }
            sleep(POLL).await;
        }
        unreachable!("the loop has no end")
    }

    async fn focus_at(
        &mut self,
        target: PageQuery<'_>,
        place: &ElementPosition,
        covered: bool,
        existing: ExistingText,
    ) -> Result<bool, OperationEnd> {
        if place.takes == InputKind::Nothing {
            return Err(OperationEnd::invalid(target.field(), "must be an element that takes text"));
        }
        if place.locked {
            let obstacle = if place.disabled { Obstacle::Disabled } else { Obstacle::NotEditable };
            self.record_obstacle(obstacle, "the field is disabled or read-only");
            return Ok(false);
        }
        // A tap would open a menu or a picker. Keys also choose an option of a menu that is closed. A caret that is in
        // the field already stays where it is.
        let has_caret = place.has_focus && place.entered;
        if !covered && !has_caret && place.takes == InputKind::Text && !self.tap_field(place).await? {
            return Ok(false);
        }
        self.record_obstacle(Obstacle::NotEditable, "the field does not take the focus");
        let replace = existing == ExistingText::Replace;
        let input = self.input(json!({ "target": target, "replace": replace, "sensitive": self.is_sensitive }));
        Ok(page::ask(&self.host, page::FOCUS.about(target), &input).await?.unwrap_or(false))
    }

    async fn tap_field(&mut self, place: &ElementPosition) -> Result<bool, OperationEnd> {
        let hold_ms = self.pace.hold_ms();
        self.touch((place.x, place.y), true, hold_ms).await
    }

    /// Looks for a point where the element can be tapped.
    async fn reach(&mut self, target: PageQuery<'_>, search: Search<'_>) -> Result<Option<TargetState>, OperationEnd> {
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
    fn record_obstacle(&mut self, reason: Obstacle, detail: &'static str) {
        (self.obstacle, self.reason) = (detail, Some(reason));
    }

    /// Returns whether an `aimed` tap has reached its element.
    async fn touch(&mut self, (x, y): (f64, f64), aimed: bool, hold_ms: u64) -> Result<bool, OperationEnd> {
        self.obstacle = "the page does not react to the tap";
        let land = TouchStep { phase: TouchPhase::Begin, x, y, after_ms: 0 };
        let lift = TouchStep { phase: TouchPhase::End, x, y, after_ms: hold_ms };
        // A touch that misses the element has reached the page, which received everything but the click.
        self.delivered = true;
        let outcome: TouchOutcome = self.host.call(HostCommand::Touch { steps: vec![land, lift], aimed }).await?;
        self.touched_at = Some(TokioInstant::now());
        if outcome == TouchOutcome::Missed {
            self.record_obstacle(Obstacle::Moving, "the element has moved away from the tap");
        }
        Ok(outcome == TouchOutcome::Done)
    }

    async fn type_text(
        &mut self,
        interact: &Interact,
        text: &str,
        delay_ms: Option<u64>,
        multiline: bool,
    ) -> Result<(), OperationEnd> {
        let mut keys = keys_of(text, "action.text", multiline)?;
        if let Some(ms) = delay_ms {
            return self.type_keys(keys, KeyDelays::exactly(ms)).await;
        }
        let needed = KEY_TAKES.saturating_mul(u32::try_from(keys.len()).unwrap_or(u32::MAX));
        let rest = keys.split_off(keys.len().min(PACED_KEYS));
        let pauses = self.pace.typing(keys.len(), interact.timeout.saturating_sub(needed) / 2);
        self.type_keys(keys, pauses).await?;
        self.type_keys(rest, KeyDelays::None).await
    }

    async fn replace_content(&mut self, target: PageQuery<'_>, value: &str) -> Result<(), OperationEnd> {
        let (takes, multiline) = self.enter(target, ExistingText::Replace).await?;
        match takes {
            InputKind::Choice => return Err(OperationEnd::invalid(target.field(), "is a menu: use select")),
            InputKind::Value => {}
            InputKind::Text | InputKind::Nothing => {
                self.obstacle = "the text was not inserted";
                let keys = keys_of(value, "action.value", multiline)?;
                let by_lines = multiline && value.contains(['\n', '\r']);
                let text = if by_lines { String::new() } else { value.to_owned() };
                self.delivered = true;
                self.host.call::<()>(HostCommand::InsertText { text }).await?;
                if by_lines {
                    self.press(keys).await?;
                }
            }
        }
        // `clear` has no value.
        let field = if value.is_empty() { target.field() } else { "action.value" };
        self.fill_value(target, value, field).await
    }

    /// Sets the value of a field, if its text was not inserted, and fires the events of a change.
    async fn fill_value(&mut self, target: PageQuery<'_>, value: &str, field: &str) -> Result<(), OperationEnd> {
        let input = self.input(json!({ "target": target, "value": value, "field": field }));
        loop {
            match page::ask(&self.host, page::FILL.about(target), &input).await? {
                None => self.obstacle = "the page does not answer",
                Some(FieldState::Absent) => self.record_obstacle(Obstacle::NotFound, "no element matches"),
                Some(FieldState::Hidden) => self.record_obstacle(Obstacle::NotVisible, "the element is not visible"),
                Some(FieldState::Locked) => {
                    self.record_obstacle(Obstacle::Disabled, "the field is disabled or read-only");
                }
                Some(FieldState::Missing { .. } | FieldState::Done) => {
                    self.delivered = true;
                    return Ok(());
                }
            }
            sleep(POLL).await;
        }
    }

    /// Types into the focused element.
    pub(super) async fn type_keys(&mut self, keys: Vec<String>, pauses: KeyDelays) -> Result<(), OperationEnd> {
        self.obstacle = "the text was not typed completely";
        self.delivered |= !keys.is_empty();
        if let KeyDelays::None = pauses {
            // The host inserts a long text in chunks: 1 s instead of 1 min.
            return Ok(self.press(keys).await?);
        }
        let mut due = TokioInstant::now();
        for key in keys {
            tokio::time::sleep_until(due).await;
            self.press(vec![key]).await?;
            due += pauses.next();
        }
        Ok(())
    }

    pub(super) async fn press(&mut self, keys: Vec<String>) -> Result<(), CallError> {
        self.host.call(HostCommand::Keys { keys }).await
    }

    /// Sends no event if it is already chosen.
    async fn choose(&mut self, target: PageQuery<'_>, options: &[String], is_list: bool) -> Result<(), OperationEnd> {
        let input = self.input(json!({ "target": target, "options": options, "is_list": is_list }));
        loop {
            match page::ask(&self.host, page::CHOOSE.about(target), &input).await? {
                None => self.obstacle = "the page does not answer",
                Some(FieldState::Absent) => self.record_obstacle(Obstacle::NotFound, "no element matches"),
                Some(FieldState::Hidden) => self.record_obstacle(Obstacle::NotVisible, "the element is not visible"),
                Some(FieldState::Locked) => {
                    self.record_obstacle(Obstacle::Disabled, "the menu or its option is disabled");
                }
                Some(FieldState::Missing { options }) => {
                    self.record_obstacle(Obstacle::NoOption, "the menu has no such option");
                    self.options = Some(options);
                }
                Some(FieldState::Done) => {
                    self.delivered = true;
                    return Ok(());
                }
            }
            sleep(POLL).await;
        }
    }

    async fn upload(
        &mut self,
        element: Option<&Element>,
        upload: UploadId,
        attached: Option<&FileName>,
    ) -> Result<(), OperationEnd> {
        let copied = match attached {
            Some(name) => Some(self.copy_attached(name).await?),
            None => None,
        };
        let upload = copied.as_ref().map_or(upload, UploadGuard::id);
        let lost = || OperationEnd::invalid("action.files", "did not reach the browser: send the request again");
        let files = self.files.waiting(upload).ok_or_else(lost)?;
        if let Some(element) = element {
            self.open_chooser(PageQuery::written(element, &element.field("action")), files).await?;
        } else if self.chooser().await?.is_none() {
            let message = "is required, because no file chooser is open";
            return Err(OperationEnd::invalid("action.selector", message));
        }
        let upload = self.files.take(upload).ok_or_else(lost)?;
        let handed = upload.hand_over(self.host.directory(), &self.confinement).await;
        let (handed, files) = handed.map_err(|error| {
            OperationEnd::Failed(driver_failure(format!("the files cannot be given to the browser: {error}")))
        })?;
        self.uploads.add(handed).await;
        match self.host.call(HostCommand::SelectFiles { files }).await? {
            ChooserState::Selected => self.delivered = true,
            ChooserState::Rejected => return Err(too_many_files()),
            ChooserState::NoChooser => {
                return Err(OperationEnd::invalid(
                    "action.files",
                    "were not selected, because the file chooser was closed",
                ));
            }
        }
        Ok(())
    }

    async fn copy_attached(&self, name: &FileName) -> Result<UploadGuard, OperationEnd> {
        let copied = self.files.copy_attached(name).await;
        let copied = copied.map_err(|error| driver_failure(format!("an attached file cannot be copied: {error}")));
        let missing = || OperationEnd::invalid("action.files", format!("no file {name} is attached"));
        copied.map_err(OperationEnd::Failed)?.ok_or_else(missing)
    }

    async fn open_chooser(&mut self, target: PageQuery<'_>, files: usize) -> Result<(), OperationEnd> {
        for attempt in 0.. {
            let input = self.input(json!({ "target": target, "opens": false }));
            match page::ask(&self.host, page::UPLOAD.about(target), &input).await? {
                None => self.obstacle = "the page does not answer",
                Some(UploadTarget::Absent) => self.record_obstacle(Obstacle::NotFound, "no element matches"),
                Some(UploadTarget::Disabled) => self.record_obstacle(Obstacle::Disabled, "the file input is disabled"),
                Some(UploadTarget::Input { multiple: false }) if files > 1 => return Err(too_many_files()),
                Some(UploadTarget::Input { .. }) => {
                    if self.activate_input(target, attempt).await? {
                        if self.chooser_opens().await? {
                            return Ok(());
                        }
                        self.obstacle = "the file input opens no chooser";
                    }
                }
                Some(UploadTarget::Other) => {
                    self.tap(target).await?;
                    if self.chooser_opens().await? {
                        return Ok(());
                    }
                    let message = "must be a file input, or an element that opens a file chooser when it is tapped";
                    return Err(OperationEnd::invalid(target.field(), message));
                }
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// A script activates an input that a user cannot tap now. Returns whether it was activated.
    async fn activate_input(&mut self, target: PageQuery<'_>, attempt: u32) -> Result<bool, OperationEnd> {
        match self.reach(target, Search { aims: true, ..Search::attempt(attempt) }).await? {
            // The chooser did not open after a tap, so a script is tried next.
            Some(TargetState::Ready(place)) if attempt.is_multiple_of(2) => {
                return self.tap_field(&place).await;
            }
            Some(TargetState::Moving | TargetState::Covered(_) | TargetState::Outside(_)) if attempt < PATIENCE => {
                return Ok(false);
            }
            _ => {}
        }
        let input = self.input(json!({ "target": target, "opens": true }));
        let activated = page::ask_once(&self.host, page::UPLOAD.about(target), &input).await?;
        Ok(matches!(activated, Some(UploadTarget::Input { .. })))
    }

    async fn chooser(&self) -> Result<Option<OpenChooser>, OperationEnd> {
        Ok(self.host.call(HostCommand::ChooserOpen).await?)
    }

    async fn chooser_opens(&self) -> Result<bool, OperationEnd> {
        let given_up = TokioInstant::now() + CHOOSER_WITHIN;
        loop {
            if self.chooser().await?.is_some() {
                return Ok(true);
            }
            if TokioInstant::now() >= given_up {
                return Ok(false);
            }
            sleep(POLL).await;
        }
    }

    async fn scroll(&mut self, target: Option<PageQuery<'_>>, x: i32, y: i32) -> Result<(), OperationEnd> {
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

fn too_many_files() -> OperationEnd {
    OperationEnd::invalid("action.files", "must be one file, because the file input has no `multiple` attribute")
}

#[derive(Debug, Clone, Copy)]
struct Search<'a> {
    at: Option<Point>,
    path: &'a [Point],
    /// True when a touch follows that must reach the element.
    aims: bool,
    scrolls: bool,
    /// True when a point that something covers is good too.
    covered_too: bool,
}

impl Search<'_> {
    fn attempt(attempt: u32) -> Self {
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

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum CheckState {
    Absent,
    Hidden,
    Known {
        /// `None` for a mixed state.
        checked: Option<bool>,
    },
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum FieldState {
    Absent,
    Hidden,
    Locked,
    /// The menu has no such option, but these.
    Missing {
        options: Value,
    },
    Done,
}

/// A line break is Enter. A tab moves to the next field, except in a field of several lines, which receives it as text.
pub fn keys_of(text: &str, field: &str, multiline: bool) -> Result<Vec<String>, OperationEnd> {
    let key_of = |character| match character {
        '\n' => Ok("Enter".to_owned()),
        '\t' if !multiline => Ok("Tab".to_owned()),
        '\t' => Ok("\t".to_owned()),
        character if char::is_control(character) => {
            Err(OperationEnd::invalid(field, "must not have control characters other than line breaks and tabs"))
        }
        character => Ok(character.to_string()),
    };
    text.replace("\r\n", "\n").replace('\r', "\n").chars().map(key_of).collect()
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

    #[test]
    fn text_is_converted_to_keys() {
        let keys = |multiline| keys_of("né\r\n\t😀", "action.text", multiline).expect("these are keys");
        assert_eq!(keys(false), ["n", "é", "Enter", "Tab", "😀"]);
        assert_eq!(keys(true), ["n", "é", "Enter", "\t", "😀"]);
        assert!(matches!(keys_of("a\u{7}", "action.text", false), Err(OperationEnd::Invalid { .. })));
    }
}
