//! Pointer events of touches.
//!
//! A phone fires pointer events of the type `touch` before each touch event, and mouse events after it. WebKitGTK fires pointer
//! events for mouse events only, so a mouse accompanies the first finger. Its events are marked by their place on the screen,
//! and the listeners in the isolated world hide the mouse events and clicks that carry the mark from pages
//! (`acknowledgement.rs`). Pages see neither the mark nor the mouse: the getters of `screenX` and `pointerType` return the
//! values of a touch (`device_script.rs`).

pub mod marks;
pub mod state;

use std::rc::Rc;
use std::time::{Duration, Instant};

use glib::translate::{ToGlibPtr, ToGlibPtrMut};
use gtk::prelude::*;
use kitfleet_host_protocol::{HostError, MouseKind, MouseStep, TouchPhase};

use self::marks::{CAPTURE, MARK, OF_MOUSE, UNSEEN};
use crate::browser::Page;
use crate::clock::milliseconds;
use crate::{acknowledgement, choosers, failure, script};

/// WebKit computes the place of its own events from the window's place.
const BESIDE: f64 = marks::BESIDE as f64;

/// Time from which a touch can be a long press. GTK's takes 500 ms, and the page may be late.
const LONG_PRESS: Duration = Duration::from_millis(400);

/// In CSS pixels.
pub type Point = (f64, f64);

/// Outside of the view. The mouse moves there when the finger lifts.
const AWAY: Point = (-1.0, -1.0);

/// Waits until the page has handled the events, because WebKit does not keep the order of mouse and touch events. Other fingers
/// than the first have no mouse.
pub async fn follow_touch(page: &Rc<Page>, finger: usize, phase: TouchPhase, at: Point) -> Result<(), HostError> {
    if phase == TouchPhase::Begin {
        release_menu_button(page, at).await?;
    }
    let mut reports = page.acknowledgements.pointers.get();
    for &(send, is_reported) in events(page, finger, phase) {
        if page.is_closed() {
            break;
        }
        send.deliver(page, at)?;
        reports += usize::from(is_reported);
    }
    acknowledgement::wait(page, |come| come.pointers.get(), reports).await;
    Ok(())
}

/// Does not wait.
pub fn follow_touch_at_once(page: &Rc<Page>, finger: usize, phase: TouchPhase, at: Point) -> Result<(), HostError> {
    if phase == TouchPhase::Begin && page.pointer.is_stuck.take() {
        send_button(page, gdk::EventType::ButtonRelease, at, UNSEEN)?;
    }
    events(page, finger, phase).iter().try_for_each(|(send, _)| send.deliver(page, at))
}

/// Releases the button that WebKit presses after a long press, to open a menu, and never releases. While a button is
/// pressed, another one has no `pointerdown`.
async fn release_menu_button(page: &Rc<Page>, at: Point) -> Result<(), HostError> {
    if page.pointer.is_stuck.take() && !page.is_closed() {
        deliver_button(page, gdk::EventType::ButtonRelease, at, UNSEEN).await?;
    }
    Ok(())
}

/// Pages see the events as those of a mouse.
pub async fn inject(page: &Rc<Page>, steps: &[MouseStep]) -> Result<(), HostError> {
    for step in steps {
        if step.after_ms > 0 {
            glib::timeout_future(Duration::from_millis(step.after_ms)).await;
        }
        if page.is_closed() {
            // The page has closed itself. It has received what came before.
            return Ok(());
        }
        if step.kind == MouseKind::Press {
            choosers::close(&page.browser);
        }
        let at = (step.x, step.y);
        match step.kind {
            MouseKind::Move => move_to(page, at, false, OF_MOUSE)?,
            MouseKind::Drag => move_to(page, at, true, OF_MOUSE)?,
            MouseKind::Press => press(page, gdk::EventType::ButtonPress, at, OF_MOUSE).await?,
            MouseKind::Release => press(page, gdk::EventType::ButtonRelease, at, OF_MOUSE).await?,
        }
    }
    // Scripts do not overtake the last event by more than one turn of the page.
    let _ = script::evaluate(page, "await new Promise((done) => setTimeout(done))").await;
    Ok(())
}

#[derive(Clone, Copy)]
enum Companion {
    Move {
        pressed: bool,
    },
    Press,
    Capture,
    Release,
    Leave,
    /// Pages do not see it.
    Vanish,
}

/// Returns the events that accompany a step, and whether the listeners report them.
fn events(page: &Page, finger: usize, phase: TouchPhase) -> &'static [(Companion, bool)] {
    let accompanied = &page.pointer.finger;
    if phase == TouchPhase::Begin && accompanied.get().is_none() {
        accompanied.set(Some(finger));
        page.pointer.began.set(Some(Instant::now()));
        // The mouse of the last click may be on the same element, which a new finger enters again.
        return &[
            (Companion::Vanish, false),
            (Companion::Move { pressed: false }, false),
            (Companion::Press, true),
            (Companion::Capture, true),
        ];
    }
    if accompanied.get() != Some(finger) {
        return &[];
    }
    if matches!(phase, TouchPhase::Begin | TouchPhase::Update) {
        return &[(Companion::Move { pressed: true }, false)];
    }
    accompanied.set(None);
    if page.pointer.began.take().is_some_and(|began| began.elapsed() >= LONG_PRESS) {
        page.pointer.is_stuck.set(true);
    }
    &[(Companion::Release, true), (Companion::Leave, true)]
}

impl Companion {
    fn deliver(self, page: &Rc<Page>, at: Point) -> Result<(), HostError> {
        match self {
            Self::Move { pressed } => move_to(page, at, pressed, MARK),
            Self::Press => send_button(page, gdk::EventType::ButtonPress, at, MARK),
            Self::Capture => move_to(page, at, true, CAPTURE),
            Self::Release => send_button(page, gdk::EventType::ButtonRelease, at, MARK),
            Self::Leave => move_to(page, AWAY, false, MARK),
            Self::Vanish => leave_view(page),
        }
    }
}

/// Another mouse has taken its place.
pub fn forget_finger_position(page: &Page) {
    page.pointer.finger.set(None);
}

/// Pages do not see it.
pub fn leave_view(page: &Rc<Page>) -> Result<(), HostError> {
    move_to(page, AWAY, false, UNSEEN)
}

pub fn move_to(page: &Rc<Page>, at: Point, pressed: bool, mark: f64) -> Result<(), HostError> {
    page.view.event(&motion(page, at, pressed, mark)?);
    Ok(())
}

/// The first button. Waits until the page has handled it.
pub async fn press(page: &Rc<Page>, kind: gdk::EventType, at: Point, mark: f64) -> Result<(), HostError> {
    if page.is_closed() {
        // The page has closed itself. It has received what came before.
        return Ok(());
    }
    if kind == gdk::EventType::ButtonPress {
        release_menu_button(page, at).await?;
    }
    deliver_button(page, kind, at, mark).await
}

async fn deliver_button(page: &Rc<Page>, kind: gdk::EventType, at: Point, mark: f64) -> Result<(), HostError> {
    let reports = page.acknowledgements.pointers.get();
    send_button(page, kind, at, mark)?;
    acknowledgement::wait(page, |come| come.pointers.get(), reports + 1).await;
    Ok(())
}

fn send_button(page: &Rc<Page>, kind: gdk::EventType, at: Point, mark: f64) -> Result<(), HostError> {
    page.view.event(&button(page, kind, at, mark)?);
    Ok(())
}

/// A drag of GTK takes them from GDK's queue.
pub fn queue(page: &Rc<Page>, kind: gdk::EventType, at: Point) -> Result<(), HostError> {
    let event = match kind {
        gdk::EventType::MotionNotify => motion(page, at, true, 0.0)?,
        kind => button(page, kind, at, 0.0)?,
    };
    event.put();
    Ok(())
}

fn motion(page: &Rc<Page>, (x, y): Point, pressed: bool, mark: f64) -> Result<gdk::Event, HostError> {
    let mut event = gdk::Event::new(gdk::EventType::MotionNotify);
    let surface = page.view.window().ok_or_else(|| failure::engine("the view has no window"))?;
    // SAFETY: GDK made the event with the type of this layout, and sets its remaining fields to zero. The event owns the
    // reference to its window.
    unsafe {
        let raw: *mut gdk::ffi::GdkEvent = event.to_glib_none_mut().0;
        let motion: *mut gdk::ffi::GdkEventMotion = raw.cast();
        (*motion).window = surface.to_glib_full();
        (*motion).time = milliseconds();
        ((*motion).x, (*motion).y) = (x, y);
        ((*motion).x_root, (*motion).y_root) = (mark + BESIDE + x.max(0.0), BESIDE + y);
        (*motion).state = state(pressed);
    }
    of_pointer(event)
}

fn button(page: &Rc<Page>, kind: gdk::EventType, (x, y): Point, mark: f64) -> Result<gdk::Event, HostError> {
    let mut event = gdk::Event::new(kind);
    let surface = page.view.window().ok_or_else(|| failure::engine("the view has no window"))?;
    // SAFETY: as in `motion`.
    unsafe {
        let raw: *mut gdk::ffi::GdkEvent = event.to_glib_none_mut().0;
        let button: *mut gdk::ffi::GdkEventButton = raw.cast();
        (*button).window = surface.to_glib_full();
        (*button).time = milliseconds();
        ((*button).x, (*button).y) = (x, y);
        ((*button).x_root, (*button).y_root) = (mark + BESIDE + x.max(0.0), BESIDE + y);
        (*button).button = gdk::ffi::GDK_BUTTON_PRIMARY as u32;
        (*button).state = state(kind == gdk::EventType::ButtonRelease);
    }
    of_pointer(event)
}

fn state(pressed: bool) -> u32 {
    if pressed { gdk::ModifierType::BUTTON1_MASK.bits() } else { 0 }
}

fn of_pointer(mut event: gdk::Event) -> Result<gdk::Event, HostError> {
    let pointer = gdk::Display::default()
        .and_then(|display| display.default_seat())
        .and_then(|seat| seat.pointer())
        .ok_or_else(|| failure::engine("X has no pointer"))?;
    event.set_device(Some(&pointer));
    event.set_source_device(Some(&pointer));
    Ok(event)
}
