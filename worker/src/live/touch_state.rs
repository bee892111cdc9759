//! Converts a viewer's events into actions of the browser (contract: live 13, 14). A wheel becomes a moving finger, because a
//! phone has no wheel.

use std::collections::BTreeMap;
use std::time::Duration;

use kitfleet_domain::archetypes::Size;
use kitfleet_host_protocol::{TouchPhase, ViewerAction};
use kitfleet_live::messages::{Event, Phase};
use tokio::time::Instant;

/// In a message.
const EVENTS: usize = 64;
/// Of a viewer.
const FINGERS: u8 = 10;
/// With its modifiers, in characters.
const KEY_CHARS: usize = 20;
/// In characters.
const TEXT_CHARS: usize = 4_096;
/// In one event, in CSS pixels.
const TURN: f64 = 10_000.0;
/// Time without events after which a finger is lifted.
const LIFT_AFTER: Duration = Duration::from_secs(10);
/// A wheel's finger is lifted this long after its last turn.
const WHEEL_RELEASE_AFTER: Duration = Duration::from_millis(80);
/// Not one of the viewer's fingers.
const WHEEL: u8 = FINGERS;

/// The error describes the violation.
pub fn check(events: &[Event], viewport: Size) -> Result<(), &'static str> {
    if events.len() > EVENTS {
        return Err("a message has at most 64 events");
    }
    let within = |x: f64, y: f64| {
        (0.0..=f64::from(viewport.width)).contains(&x) && (0.0..=f64::from(viewport.height)).contains(&y)
    };
    let turns = |delta: f64| delta.abs() <= TURN;
    let chars = |text: &str, max: usize| text.chars().take(max + 1).count() <= max;
    let shows = |text: &str| !text.contains(|of: char| of.is_control() && !matches!(of, '\n' | '\r' | '\t'));
    for event in events {
        match event {
            Event::Touch { finger, .. } if *finger >= FINGERS => return Err("a finger has a number from 0 to 9"),
            Event::Touch { x, y, .. } | Event::Wheel { x, y, .. } if !within(*x, *y) => {
                return Err("the position is outside the viewport");
            }
            Event::Wheel { delta_x, delta_y, .. } if !(turns(*delta_x) && turns(*delta_y)) => {
                return Err("a wheel event turns by at most 10000 CSS pixels");
            }
            Event::Key { key } if key.is_empty() || !chars(key, KEY_CHARS) => {
                return Err("a key has 1 to 20 characters");
            }
            Event::Text { text } | Event::Answer { text: Some(text), .. } if !chars(text, TEXT_CHARS) => {
                return Err("a text has at most 4096 characters");
            }
            Event::Text { text } | Event::Answer { text: Some(text), .. } if !shows(text) => {
                return Err("a text must not have control characters other than line breaks and tabs");
            }
            _ => {}
        }
    }
    Ok(())
}

#[derive(Clone, Default)]
pub struct TouchState {
    down: BTreeMap<u8, TouchPoint>,
}

#[derive(Clone)]
struct TouchPoint {
    x: f64,
    y: f64,
    last_event_at: Instant,
}

impl TouchState {
    /// Moves and lifts of a finger that is not down are ignored.
    pub fn acts(&mut self, events: Vec<Event>, viewport: Size, now: Instant) -> Vec<ViewerAction> {
        let mut acts = Vec::with_capacity(events.len());
        for event in events {
            match event {
                Event::Touch { finger, phase, x, y } => self.touch(&mut acts, (finger, phase), (x, y), now),
                Event::Wheel { x, y, delta_x, delta_y } => {
                    self.turn(&mut acts, (x, y), (delta_x, delta_y), viewport, now);
                }
                Event::Key { key } => acts.push(ViewerAction::Key { key }),
                Event::Text { text } => acts.push(ViewerAction::Text { text }),
                Event::Choose { index } => acts.push(ViewerAction::Choose { index }),
                Event::Answer { accept, text } => acts.push(ViewerAction::Answer { accept, text }),
            }
        }
        acts
    }

    fn touch(&mut self, acts: &mut Vec<ViewerAction>, (finger, phase): (u8, Phase), (x, y): (f64, f64), now: Instant) {
        let phase = match phase {
            Phase::Begin => TouchPhase::Begin,
            Phase::Update => TouchPhase::Update,
            Phase::End => TouchPhase::End,
            Phase::Cancel => TouchPhase::Cancel,
        };
        match (phase, self.down.remove(&finger)) {
            (TouchPhase::Begin, Some(before)) => acts.push(before.step(finger, TouchPhase::Cancel)),
            (TouchPhase::Begin, None) | (_, Some(_)) => {}
            (_, None) => return,
        }
        let place = TouchPoint { x, y, last_event_at: now };
        acts.push(place.step(finger, phase));
        if matches!(phase, TouchPhase::Begin | TouchPhase::Update) {
            self.down.insert(finger, place);
        }
    }

    /// Moves the wheel's finger against the direction of the turn. A finger that would leave the viewport is put down again at
    /// the pointer.
    fn turn(
        &mut self,
        acts: &mut Vec<ViewerAction>,
        (x, y): (f64, f64),
        (right, down): (f64, f64),
        Size { width, height }: Size,
        now: Instant,
    ) {
        let (width, height) = (f64::from(width), f64::from(height));
        let moved = |from: (f64, f64)| (from.0 - right, from.1 - down);
        let is_within = |(x, y): (f64, f64)| (0.0..=width).contains(&x) && (0.0..=height).contains(&y);
        let from = match self.down.get(&WHEEL) {
            Some(finger) if is_within(moved((finger.x, finger.y))) => (finger.x, finger.y),
            _ => {
                self.lift_wheel(acts, now);
                // Start far enough from the target edge for the whole turn, if the viewport is large enough.
                let start = |at: f64, turn: f64, max: f64| {
                    if (0.0..=max).contains(&(at - turn)) {
                        at
                    } else if turn > 0.0 {
                        turn.min(max)
                    } else {
                        (max + turn).max(0.0)
                    }
                };
                let from = (start(x, right, width), start(y, down, height));
                self.touch(acts, (WHEEL, Phase::Begin), from, now);
                from
            }
        };
        let (x, y) = moved(from);
        self.touch(acts, (WHEEL, Phase::Update), (x.clamp(0.0, width), y.clamp(0.0, height)), now);
    }

    fn lift_wheel(&mut self, acts: &mut Vec<ViewerAction>, now: Instant) {
        if let Some(finger) = self.down.get(&WHEEL) {
            let place = (finger.x, finger.y);
            self.touch(acts, (WHEEL, Phase::End), place, now);
        }
    }

    /// The wheel's finger after its pause, and the others after 10 s without an event.
    pub fn lift_due(&mut self, now: Instant) -> Vec<ViewerAction> {
        let mut acts = Vec::new();
        if self.down.get(&WHEEL).is_some_and(|finger| finger.due(WHEEL) <= now) {
            self.lift_wheel(&mut acts, now);
        }
        self.down.retain(|number, finger| {
            let stays = finger.due(*number) > now;
            if !stays {
                acts.push(finger.step(*number, TouchPhase::Cancel));
            }
            stays
        });
        acts
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.down.iter().map(|(number, finger)| finger.due(*number)).min()
    }

    pub fn lift_all(&mut self) -> Vec<ViewerAction> {
        std::mem::take(&mut self.down).iter().map(|(number, finger)| finger.step(*number, TouchPhase::Cancel)).collect()
    }

    pub fn any(&self) -> bool {
        !self.down.is_empty()
    }
}

impl TouchPoint {
    fn step(&self, finger: u8, phase: TouchPhase) -> ViewerAction {
        ViewerAction::Touch { finger, phase, x: self.x, y: self.y }
    }

    fn due(&self, number: u8) -> Instant {
        self.last_event_at + if number == WHEEL { WHEEL_RELEASE_AFTER } else { LIFT_AFTER }
    }
}

#[cfg(test)]
mod tests {
    use kitfleet_domain::archetypes::Size;
    use kitfleet_host_protocol::{TouchPhase, ViewerAction};
    use kitfleet_live::messages::{Event, Phase};
    use proptest::prelude::*;
    use tokio::time::{Duration, Instant};

    use super::{TouchState, check};

    const VIEWPORT: Size = Size { width: 400, height: 800 };

    fn touch(finger: u8, phase: Phase, x: f64, y: f64) -> Event {
        Event::Touch { finger, phase, x, y }
    }

    fn phases(acts: &[ViewerAction]) -> Vec<(u8, TouchPhase)> {
        let phase = |act: &ViewerAction| match act {
            ViewerAction::Touch { finger, phase, .. } => Some((*finger, *phase)),
            _ => None,
        };
        acts.iter().filter_map(phase).collect()
    }

    /// Contract: live 14.
    #[test]
    fn events_outside_the_limits_are_rejected() {
        let ok = [touch(0, Phase::Begin, 0.0, 0.0), touch(9, Phase::Begin, 400.0, 800.0)];
        assert_eq!(check(&ok, VIEWPORT), Ok(()));
        let key = |key: &str| Event::Key { key: key.to_owned() };
        let text = |chars: usize| Event::Text { text: "ä".repeat(chars) };
        let wheel = |delta: f64| Event::Wheel { x: 1.0, y: 1.0, delta_x: 0.0, delta_y: delta };
        let says = |text: &str| Event::Text { text: text.to_owned() };
        let lines = "one\r\n\ttwo\u{a0}\u{1f469}\u{200d}\u{1f52c}";
        assert_eq!(check(&[key("Control+a"), text(4_096), says(lines), wheel(-10_000.0)], VIEWPORT), Ok(()));
        let bad = [
            touch(10, Phase::Begin, 1.0, 1.0),
            touch(0, Phase::Begin, f64::NAN, 1.0),
            touch(0, Phase::Begin, 1.0, f64::INFINITY),
            touch(0, Phase::Begin, -0.1, 1.0),
            touch(0, Phase::Begin, 1.0, 800.1),
            wheel(10_000.1),
            wheel(f64::NAN),
            key(""),
            key(&"a".repeat(21)),
            text(4_097),
            Event::Answer { accept: true, text: Some("a".repeat(4_097)) },
            says("a\0b"),
            says("\u{1b}[2J"),
            says("\u{7f}"),
            says("\u{85}"),
            Event::Answer { accept: true, text: Some("a\0".to_owned()) },
        ];
        for event in bad {
            assert!(check(&[event], VIEWPORT).is_err());
        }
        assert!(check(&vec![key("a"); 65], VIEWPORT).is_err());
    }

    /// Contract: live 13.
    #[test]
    fn forgotten_fingers_are_cancelled() {
        let (mut fingers, now) = (TouchState::default(), Instant::now());
        let landed = fingers.acts(vec![touch(3, Phase::Begin, 5.0, 5.0)], VIEWPORT, now);
        assert_eq!(phases(&landed), [(3, TouchPhase::Begin)]);
        assert!(fingers.lift_due(now + Duration::from_secs(9)).is_empty());
        assert_eq!(phases(&fingers.lift_due(now + Duration::from_secs(10))), [(3, TouchPhase::Cancel)]);
        assert!(!fingers.any());
        assert!(fingers.acts(vec![touch(3, Phase::Update, 6.0, 6.0)], VIEWPORT, now).is_empty(), "it is not down");
        fingers.acts(vec![touch(0, Phase::Begin, 5.0, 5.0), touch(1, Phase::Begin, 9.0, 9.0)], VIEWPORT, now);
        assert_eq!(phases(&fingers.lift_all()), [(0, TouchPhase::Cancel), (1, TouchPhase::Cancel)]);
        assert!(!fingers.any());
    }

    #[test]
    fn wheel_moves_a_finger_that_is_lifted_after_a_pause() {
        let (mut fingers, now) = (TouchState::default(), Instant::now());
        let wheel = |delta_y: f64| Event::Wheel { x: 200.0, y: 400.0, delta_x: 0.0, delta_y };
        let turned = fingers.acts(vec![wheel(100.0), wheel(100.0)], VIEWPORT, now);
        assert_eq!(phases(&turned), [(10, TouchPhase::Begin), (10, TouchPhase::Update), (10, TouchPhase::Update)]);
        assert!(matches!(turned[2], ViewerAction::Touch { y: 200.0, .. }));
        let beyond = fingers.acts(vec![wheel(300.0)], VIEWPORT, now);
        assert_eq!(phases(&beyond), [(10, TouchPhase::End), (10, TouchPhase::Begin), (10, TouchPhase::Update)]);
        assert!(matches!(beyond[2], ViewerAction::Touch { y: 100.0, .. }));
        assert_eq!(phases(&fingers.lift_due(now + Duration::from_millis(80))), [(10, TouchPhase::End)]);
    }

    proptest! {
        /// For any events.
        #[test]
        fn touch_phases_are_ordered_and_within_the_viewport(
            events in prop::collection::vec((0_u8..3, 0_u8..5, 0.0..=400.0, 0.0..=800.0, -900.0..=900.0), 0..60)
        ) {
            let (mut fingers, now) = (TouchState::default(), Instant::now());
            let events = events.into_iter().map(|(finger, what, x, y, delta)| match what {
                0 => touch(finger, Phase::Begin, x, y),
                1 => touch(finger, Phase::Update, x, y),
                2 => touch(finger, Phase::End, x, y),
                3 => touch(finger, Phase::Cancel, x, y),
                _ => Event::Wheel { x, y, delta_x: delta / 2.0, delta_y: delta },
            });
            let mut acts = fingers.acts(events.collect(), VIEWPORT, now);
            acts.extend(fingers.lift_all());
            let mut down = std::collections::BTreeSet::new();
            for act in &acts {
                let ViewerAction::Touch { finger, phase, x, y } = act else { continue };
                prop_assert!((0.0..=400.0).contains(x) && (0.0..=800.0).contains(y));
                match phase {
                    TouchPhase::Begin => prop_assert!(down.insert(*finger)),
                    TouchPhase::Update => prop_assert!(down.contains(finger)),
                    TouchPhase::End | TouchPhase::Cancel => prop_assert!(down.remove(finger)),
                }
            }
            prop_assert!(down.is_empty());
        }
    }
}
