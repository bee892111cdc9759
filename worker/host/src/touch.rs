//! Touch input.
//!
//! The events are GDK events, which are passed to the view as if X had sent them. WebKit turns them into trusted touch
//! events, and its gesture recognizer clicks and scrolls unless the page prevents it.

use std::rc::Rc;
use std::time::Duration;

use glib::translate::{ToGlibPtr, ToGlibPtrMut};
use gtk::prelude::*;
use kitfleet_host_protocol::{HostError, TouchPhase, TouchStep};

use crate::browser::Browser;
use crate::{acknowledgement, failure, submissions};

/// Distance from the first contact, in CSS pixels, beyond which a touch is not a tap.
const SLACK: f64 = 8.0;

/// Number of the finger that operations use.
const FINGER: usize = 1;

/// Injects the steps of one finger, and waits until the page has handled them.
pub async fn inject(browser: &Rc<Browser>, steps: &[TouchStep]) -> Result<(), HostError> {
    let reports = &browser.acknowledgements;
    submissions::begin_input(browser);
    let (touches, refusals, clicks) = (reports.touches.get(), reports.refusals.get(), reports.clicks.get());
    for step in steps {
        if step.after_ms > 0 {
            glib::timeout_future(Duration::from_millis(step.after_ms)).await;
        }
        send(browser, FINGER, step.phase, (step.x, step.y))?;
    }
    acknowledgement::wait(browser, |reports| reports.touches.get(), touches + 1).await;
    if is_tap(steps) && reports.refusals.get() == refusals {
        acknowledgement::wait(browser, |reports| reports.clicks.get(), clicks + 1).await;
    }
    Ok(())
}

fn is_tap(steps: &[TouchStep]) -> bool {
    let Some(first) = steps.first() else { return false };
    steps.iter().all(|step| (step.x - first.x).hypot(step.y - first.y) <= SLACK)
}

/// Sends one step of a finger to the view.
pub fn send(browser: &Rc<Browser>, finger: usize, phase: TouchPhase, (x, y): (f64, f64)) -> Result<(), HostError> {
    let surface = browser.view.window().ok_or_else(|| failure::engine("the view has no window"))?;
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
    browser.view.event(&event);
    Ok(())
}

/// Time of X's clock, which wraps around every seven weeks.
pub fn milliseconds() -> u32 {
    let wrapped = (glib::monotonic_time() / 1000) & i64::from(u32::MAX);
    u32::try_from(wrapped).unwrap_or_default()
}
