//! The events are GDK events, which are passed to the view as if X had sent them. WebKit turns them into trusted touch
//! events, and its gesture recognizer clicks and scrolls unless the page prevents it.

use std::rc::Rc;
use std::time::{Duration, Instant};

use glib::translate::{ToGlibPtr, ToGlibPtrMut};
use gtk::prelude::*;
use kitfleet_host_protocol::{HostError, TouchOutcome, TouchPhase, TouchStep};

use crate::acknowledgement;
use crate::acknowledgement::state::Acknowledgements;
use crate::browser::Page;
use crate::clock::milliseconds;
use crate::{choosers, failure, pointer, submissions};

/// In CSS pixels from the first contact. A touch that moves farther is not a tap.
const SLACK: f64 = 8.0;

/// Time that a finger rests for a long press.
const LONG_PRESS: Duration = Duration::from_millis(500);

/// The same time for a touch that is no long press, however long the page takes to handle it.
const NO_LONG_PRESS: Duration = Duration::from_mins(10);

/// Finger that operations use.
pub const FINGER: usize = 1;

/// Cancels an `aimed` touch unless it reaches the node that a script has marked.
pub async fn inject(page: &Rc<Page>, steps: &[TouchStep], aimed: bool) -> Result<TouchOutcome, HostError> {
    let reports = &page.acknowledgements;
    choosers::close(&page.browser);
    submissions::begin_input(&page.browser);
    let (touches, refusals, ends) = (reports.touches.get(), reports.refusals.get(), ends(reports));
    let (arrivals, misses, strays) = (arrivals(reports), reports.misses.get(), reports.strays.get());
    let documents = page.scripts.documents();
    expect_long_press(is_tap(steps) && duration(steps) >= LONG_PRESS);
    let mut due = Instant::now();
    for (number, step) in steps.iter().enumerate() {
        due += Duration::from_millis(step.after_ms);
        if let Some(pause) = due.checked_duration_since(Instant::now()) {
            glib::timeout_future(pause).await;
        }
        pointer::follow_touch(page, FINGER, step.phase, (step.x, step.y)).await?;
        if step.phase == TouchPhase::Update {
            move_touch(page, (step.x, step.y)).await?;
            continue;
        }
        send_touch(page, FINGER, step.phase, (step.x, step.y))?;
        if aimed && number == 0 {
            acknowledgement::wait(page, self::arrivals, arrivals + 1).await;
            if reports.misses.get() > misses || page.scripts.documents() != documents {
                send(page, FINGER, TouchPhase::Cancel, (step.x, step.y))?;
                return Ok(TouchOutcome::Missed);
            }
        }
    }
    acknowledgement::wait(page, |reports| reports.touches.get(), touches + 1).await;
    if is_tap(steps) && reports.refusals.get() == refusals {
        acknowledgement::wait(page, self::ends, ends + 1).await;
        acknowledgement::await_click(page).await;
    }
    Ok(if reports.strays.get() > strays { TouchOutcome::Missed } else { TouchOutcome::Done })
}

/// Fingers that the page has received.
pub fn arrivals(reports: &Acknowledgements) -> usize {
    reports.hits.get() + reports.misses.get()
}

/// Number of taps that have ended.
fn ends(reports: &Acknowledgements) -> usize {
    reports.clicks.get() + reports.strays.get()
}

fn is_tap(steps: &[TouchStep]) -> bool {
    let Some(first) = steps.first() else { return false };
    steps.iter().all(|step| (step.x - first.x).hypot(step.y - first.y) <= SLACK)
}

fn duration(steps: &[TouchStep]) -> Duration {
    Duration::from_millis(steps.iter().map(|step| step.after_ms).sum())
}

/// Tells the gesture recognizer whether the next touch may be a long press. It measures a touch by the times at which the
/// events arrive. Those of a tap can be far apart, because the finger is lifted only after the page has received it.
pub fn expect_long_press(expected: bool) {
    let time = if expected { LONG_PRESS } else { NO_LONG_PRESS };
    if let Some(settings) = gtk::Settings::default() {
        settings.set_gtk_long_press_time(u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
    }
}

/// Does not wait for the page.
pub fn send(page: &Rc<Page>, finger: usize, phase: TouchPhase, at: (f64, f64)) -> Result<(), HostError> {
    if phase == TouchPhase::Begin {
        choosers::close(&page.browser);
        expect_long_press(true);
    }
    pointer::follow_touch_at_once(page, finger, phase, at)?;
    send_touch(page, finger, phase, at)
}

/// Waits until the page has handled the movement. Those that come while it handles one do not reach it.
pub async fn move_touch(page: &Rc<Page>, at: (f64, f64)) -> Result<(), HostError> {
    let movements = page.acknowledgements.movements.get();
    send_touch(page, FINGER, TouchPhase::Update, at)?;
    acknowledgement::wait(page, |reports| reports.movements.get(), movements + 1).await;
    Ok(())
}

/// Sends one touch event to the view, without the mouse that accompanies the finger.
pub fn send_touch(page: &Rc<Page>, finger: usize, phase: TouchPhase, (x, y): (f64, f64)) -> Result<(), HostError> {
    if page.is_closed() {
        // The page has closed itself. It has received what came before.
        return Ok(());
    }
    let surface = page.view.window().ok_or_else(|| failure::engine("the view has no window"))?;
    let device = gdk::Display::default()
        .and_then(|display| display.default_seat())
        .and_then(|seat| seat.pointer())
        .ok_or_else(|| failure::engine("X has no pointer"))?;
    let mut event = gdk::Event::new(match phase {
        TouchPhase::Begin => gdk::EventType::TouchBegin,
        TouchPhase::Update => gdk::EventType::TouchUpdate,
        TouchPhase::End => gdk::EventType::TouchEnd,
        TouchPhase::Cancel => gdk::EventType::TouchCancel,
    });
    // SAFETY: GDK made the event with one of the four types of this layout, and sets its remaining fields to zero. The
    // event owns the reference to its window. A sequence is an opaque number, unique for each finger.
    unsafe {
        let raw: *mut gdk::ffi::GdkEvent = event.to_glib_none_mut().0;
        let touch: *mut gdk::ffi::GdkEventTouch = raw.cast();
        (*touch).window = surface.to_glib_full();
        (*touch).time = milliseconds();
        (*touch).x = x;
        (*touch).y = y;
        (*touch).x_root = x;
        (*touch).y_root = y;
        (*touch).sequence = std::ptr::without_provenance_mut(finger);
        (*touch).emulating_pointer = 0;
    }
    event.set_device(Some(&device));
    event.set_source_device(Some(&device));
    page.view.event(&event);
    Ok(())
}
