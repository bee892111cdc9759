//! Drags with a finger or a mouse, which include the drag and drop of HTML.
//!
//! When a page allows a drag of an element, WebKit starts a drag of GTK. GDK then takes the events of the mouse from its own
//! queue and asks the window below them, which is that of the view. Pages therefore see a drag of the engine, with trusted
//! events. A finger starts one by a long press on an element with `draggable`: the mouse that accompanies the finger is
//! released, and another one, whose events pages do not see, drags the element (`acknowledgement.rs`).

pub mod state;

use std::rc::Rc;
use std::time::{Duration, Instant};

use gtk::prelude::*;
use kitfleet_host_protocol::{DragOutcome, DragPoint, HostError, TouchPhase};

use crate::browser::Page;
use crate::pointer::marks::{OF_MOUSE, UNSEEN};
use crate::pointer::{self, Point};
use crate::{acknowledgement, choosers, script, submissions, touch};

/// Shorter than GTK's long press (500 ms), which opens a menu.
const LIFT: Duration = Duration::from_millis(400);

/// In CSS pixels from the first point. WebKit starts a drag within this distance; for links it is 40.
const NEAR: f64 = 48.0;

/// For GDK to reach the last point. It skips movements while the page handles an earlier one.
const SETTLE_WITHIN: Duration = Duration::from_secs(2);

/// Repeats the last movement.
const REPEAT: Duration = Duration::from_millis(16);

/// For GDK to pass the page's answer to a movement on.
const ANSWER_PASSES: Duration = Duration::from_millis(10);

const DROP_WITHIN: Duration = Duration::from_secs(5);

const POLL: Duration = Duration::from_millis(5);

/// Cancels a drag that begins when its pointer was released, because the page has answered too late.
pub fn listen(page: &Rc<Page>) {
    let weak = Rc::downgrade(page);
    page.view.connect_drag_begin(move |_, context| {
        let Some(page) = weak.upgrade() else { return };
        page.drags.over.set(None);
        page.drags.current.replace(Some(context.clone()));
        if page.drags.injections.get() == 0 {
            // GTK is still starting the drag.
            glib::idle_add_local_once(move || {
                if page.drags.injections.get() == 0 {
                    page.drags.cancel();
                }
            });
        }
    });
    let weak = Rc::downgrade(page);
    page.view.connect_drag_end(move |_, _| {
        if let Some(page) = weak.upgrade() {
            page.drags.current.take();
        }
    });
    let weak = Rc::downgrade(page);
    page.view.connect_drag_motion(move |_, _, x, y, _| {
        if let Some(page) = weak.upgrade() {
            page.drags.over.set(Some((x, y)));
        }
        // WebKit's own handler follows.
        false
    });
}

pub async fn inject(page: &Rc<Page>, has_finger: bool, points: &[DragPoint]) -> Result<DragOutcome, HostError> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Ok(DragOutcome::Done) };
    choosers::close(&page.browser);
    let injections = &page.drags.injections;
    injections.set(injections.get() + 1);
    let (first, last) = ((first.x, first.y), (last.x, last.y));
    let outcome = if has_finger {
        submissions::begin_input(&page.browser);
        with_finger(page, points, first, last).await
    } else {
        with_mouse(page, points, first, last).await
    };
    injections.set(injections.get() - 1);
    if injections.get() == 0 {
        // One is left after an error.
        page.drags.cancel();
    }
    // Scripts do not overtake the last event by more than one turn of the page.
    let _ = script::evaluate(page, "await new Promise((done) => setTimeout(done))").await;
    outcome
}

async fn with_mouse(
    page: &Rc<Page>,
    points: &[DragPoint],
    first: Point,
    last: Point,
) -> Result<DragOutcome, HostError> {
    pointer::move_to(page, first, false, OF_MOUSE)?;
    pointer::press(page, gdk::EventType::ButtonPress, first, OF_MOUSE).await?;
    let mut due = Instant::now();
    for point in &points[1..] {
        pause(&mut due, point).await;
        advance(page, first, (point.x, point.y), OF_MOUSE).await?;
    }
    pause(&mut due, &DragPoint { x: last.0, y: last.1, after_ms: millis(REPEAT) }).await;
    if page.drags.is_under_way() {
        return drop_at(page, last).await;
    }
    pointer::press(page, gdk::EventType::ButtonRelease, last, OF_MOUSE).await?;
    Ok(DragOutcome::Done)
}

async fn with_finger(
    page: &Rc<Page>,
    points: &[DragPoint],
    first: Point,
    last: Point,
) -> Result<DragOutcome, HostError> {
    let reports = &page.acknowledgements;
    let (arrivals, touches) = (touch::arrivals(reports), reports.touches.get());
    let (draggables, undraggables) = (reports.draggables.get(), reports.undraggables.get());
    touch::expect_long_press(false);
    pointer::follow_touch(page, touch::FINGER, TouchPhase::Begin, first).await?;
    touch::send_touch(page, touch::FINGER, TouchPhase::Begin, first)?;
    acknowledgement::wait(page, touch::arrivals, arrivals + 1).await;
    let mut is_lifted = false;
    if reports.draggables.get() > draggables {
        glib::timeout_future(LIFT).await;
        // A page that prevents the default action of the touch handles it by itself.
        if reports.undraggables.get() == undraggables {
            pointer::press(page, gdk::EventType::ButtonRelease, first, UNSEEN).await?;
            pointer::press(page, gdk::EventType::ButtonPress, first, UNSEEN).await?;
            is_lifted = true;
        }
    }
    let mut is_cancelled = false;
    let mut due = Instant::now();
    for point in &points[1..] {
        pause(&mut due, point).await;
        let at = (point.x, point.y);
        if is_lifted {
            advance(page, first, at, UNSEEN).await?;
            if page.drags.is_under_way() && !is_cancelled {
                is_cancelled = true;
                pointer::forget_finger_position(page);
                touch::send_touch(page, touch::FINGER, TouchPhase::Cancel, first)?;
            }
            if is_cancelled || distance(first, at) <= NEAR {
                continue;
            }
            // The page has prevented the drag, so it receives the touch.
            pointer::press(page, gdk::EventType::ButtonRelease, at, UNSEEN).await?;
            is_lifted = false;
        }
        pointer::follow_touch(page, touch::FINGER, TouchPhase::Update, at).await?;
        touch::move_touch(page, at).await?;
    }
    pause(&mut due, &DragPoint { x: last.0, y: last.1, after_ms: millis(REPEAT) }).await;
    if is_cancelled {
        // The drag may have ended by itself, because its source was removed.
        return drop_at(page, last).await;
    }
    if is_lifted {
        pointer::press(page, gdk::EventType::ButtonRelease, last, UNSEEN).await?;
    }
    pointer::follow_touch(page, touch::FINGER, TouchPhase::End, last).await?;
    touch::send_touch(page, touch::FINGER, TouchPhase::End, last)?;
    acknowledgement::wait(page, |reports| reports.touches.get(), touches + 1).await;
    Ok(DragOutcome::Done)
}

/// GTK's drag moves if there is one.
async fn advance(page: &Rc<Page>, first: Point, at: Point, mark: f64) -> Result<(), HostError> {
    if page.is_closed() {
        return Ok(());
    }
    if page.drags.is_under_way() {
        return pointer::queue(page, gdk::EventType::MotionNotify, whole(at));
    }
    pointer::move_to(page, at, true, mark)?;
    if distance(first, at) <= NEAR {
        // WebKit has started a drag when the page answers this.
        let _ = script::evaluate(page, "").await;
    }
    Ok(())
}

/// Moves GTK's drag to the last point, waits until the page has answered, and drops.
async fn drop_at(page: &Rc<Page>, last: Point) -> Result<DragOutcome, HostError> {
    let last = whole(last);
    let given_up = Instant::now() + SETTLE_WITHIN;
    while can_settle(page, given_up) && page.drags.over.get() != Some(pixels(last)) {
        pointer::queue(page, gdk::EventType::MotionNotify, last)?;
        glib::timeout_future(REPEAT).await;
    }
    if can_settle(page, given_up) {
        let answers = page.acknowledgements.drags.get();
        pointer::queue(page, gdk::EventType::MotionNotify, last)?;
        acknowledgement::wait(page, |reports| reports.drags.get(), answers + 1).await;
        // WebKit has received the page's answer when this is answered.
        let _ = script::evaluate(page, "").await;
        glib::timeout_future(ANSWER_PASSES).await;
    }
    if page.drags.is_under_way() && !page.is_closed() {
        pointer::queue(page, gdk::EventType::ButtonRelease, last)?;
    }
    let given_up = Instant::now() + DROP_WITHIN;
    while page.drags.is_under_way() && !page.is_closed() && Instant::now() < given_up {
        glib::timeout_future(POLL).await;
    }
    let outcome = if page.drags.is_under_way() { DragOutcome::Unfinished } else { DragOutcome::Done };
    page.drags.cancel();
    if !page.is_closed() {
        // WebKit has not seen a release, and would count the next press as one of a second button.
        pointer::press(page, gdk::EventType::ButtonRelease, last, UNSEEN).await?;
        if !page.is_closed() {
            pointer::leave_view(page)?;
        }
    }
    Ok(outcome)
}

fn can_settle(page: &Page, given_up: Instant) -> bool {
    let is_blocked = page.is_closed() || page.browser.dialogs.is_blocking();
    page.drags.is_under_way() && !is_blocked && Instant::now() < given_up
}

async fn pause(due: &mut Instant, point: &DragPoint) {
    *due += Duration::from_millis(point.after_ms);
    if let Some(pause) = due.checked_duration_since(Instant::now()) {
        glib::timeout_future(pause).await;
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn distance(one: Point, other: Point) -> f64 {
    (one.0 - other.0).hypot(one.1 - other.1)
}

/// GTK's drags have positions in whole CSS pixels.
fn whole((x, y): Point) -> Point {
    (x.floor(), y.floor())
}

#[expect(clippy::cast_possible_truncation, reason = "a point of the viewport is small")]
fn pixels((x, y): Point) -> (i32, i32) {
    (x as i32, y as i32)
}
