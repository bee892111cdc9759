use std::rc::Rc;

use gdk::ModifierType;
use gdk::keys::{Key, constants as key};
use glib::translate::{ToGlibPtr, ToGlibPtrMut};
use gtk::prelude::*;
use kitfleet_host_protocol::HostError;
use webkit2gtk::WebViewExt;

use crate::browser::Page;
use crate::clock::milliseconds;
use crate::{acknowledgement, choosers, failure, script, submissions};

/// Unacknowledged keys: enough to keep the page busy, and few enough that the page controls the focus.
const AHEAD: usize = 32;

/// These keys of a text are pressed one by one. The rest is inserted in phrases, like a phone's suggestions. WebKit lays out
/// and paints a long text again for each key, which takes 30 s for 10,000 keys.
const BY_KEY: usize = 256;

/// In characters.
const PHRASE: usize = 128;

/// Inserted as text, because its key moves the focus.
const TAB: char = '\t';

struct KeyPress {
    held: Vec<Key>,
    key: Key,
    /// Character that the key types, if it has no other effect.
    text: Option<char>,
}

pub async fn inject(page: &Rc<Page>, keys: &[String]) -> Result<(), HostError> {
    let strokes: Vec<KeyPress> = keys.iter().map(|key| stroke(key)).collect::<Result<_, _>>()?;
    choosers::close(&page.browser);
    submissions::begin_input(&page.browser);
    let mut by_key = BY_KEY;
    let mut rest = strokes.as_slice();
    while !rest.is_empty() {
        let pressed = rest.iter().take(by_key).take_while(|stroke| stroke.text != Some(TAB)).count();
        press(page, &rest[..pressed]).await?;
        (by_key, rest) = (by_key - pressed, &rest[pressed..]);
        let max = if by_key == 0 { PHRASE } else { 1 };
        let phrase: String = rest.iter().map_while(|stroke| stroke.text).take(max).collect();
        if phrase.is_empty() {
            // A key without text follows the first keys.
            by_key = by_key.max(1);
        } else {
            insert(page, &phrase).await;
            rest = &rest[phrase.chars().count()..];
        }
    }
    Ok(())
}

pub async fn insert(page: &Rc<Page>, text: &str) {
    if text.is_empty() {
        page.view.execute_editing_command("Delete");
    } else {
        page.view.execute_editing_command_with_argument("InsertText", text);
    }
    // Scripts do not overtake editing commands. If the page was replaced, the focus is gone too.
    let _ = script::evaluate(page, "").await;
}

pub fn check(key: &str) -> Result<(), HostError> {
    stroke(key).map(|_| ())
}

/// Does not wait for the page. Returns the number of released keys, including modifiers.
pub fn strike(page: &Rc<Page>, key: &str) -> Result<usize, HostError> {
    stroke(key)?.send(page)
}

fn stroke(key: &str) -> Result<KeyPress, HostError> {
    parse(key).ok_or_else(|| HostError::UnknownKey { key: key.to_owned() })
}

async fn press(page: &Rc<Page>, strokes: &[KeyPress]) -> Result<(), HostError> {
    let mut sent = page.acknowledgements.keys.get();
    for stroke in strokes {
        sent += stroke.send(page)?;
        acknowledgement::wait(page, |reports| reports.keys.get() + AHEAD, sent).await;
    }
    acknowledgement::wait(page, |reports| reports.keys.get(), sent).await;
    Ok(())
}

impl KeyPress {
    /// Returns the number of released keys.
    fn send(&self, page: &Rc<Page>) -> Result<usize, HostError> {
        let mut state = ModifierType::empty();
        for held in &self.held {
            send(page, gdk::EventType::KeyPress, *held, state)?;
            state |= modifier(*held);
        }
        send(page, gdk::EventType::KeyPress, self.key, state)?;
        send(page, gdk::EventType::KeyRelease, self.key, state)?;
        for held in self.held.iter().rev() {
            state -= modifier(*held);
            send(page, gdk::EventType::KeyRelease, *held, state)?;
        }
        Ok(self.held.len() + 1)
    }
}

fn send(page: &Rc<Page>, kind: gdk::EventType, key: Key, state: ModifierType) -> Result<(), HostError> {
    if page.is_closed() {
        // The page has closed itself. It has received what came before.
        return Ok(());
    }
    let surface = page.view.window().ok_or_else(|| failure::engine("the view has no window"))?;
    let display = surface.display();
    let keyboard =
        display.default_seat().and_then(|seat| seat.keyboard()).ok_or_else(|| failure::engine("X has no keyboard"))?;
    // GTK handles a key without a hardware code badly. A character that is on no key has no code. The display has `Meta` on the
    // key of `Alt`.
    let placed = if key == key::Meta_L { key::Super_L } else { key };
    let place =
        gdk::Keymap::for_display(&display).and_then(|keymap| keymap.entries_for_keyval(*placed).into_iter().next());
    let mut event = gdk::Event::new(kind);
    // SAFETY: GDK made the event with one of the two types of this layout, and sets its remaining fields to zero. The
    // event owns the reference to its window.
    unsafe {
        let raw: *mut gdk::ffi::GdkEvent = event.to_glib_none_mut().0;
        let stroke: *mut gdk::ffi::GdkEventKey = raw.cast();
        (*stroke).window = surface.to_glib_full();
        (*stroke).time = milliseconds();
        (*stroke).keyval = *key;
        (*stroke).state = state.bits();
        if let Some(place) = place {
            (*stroke).hardware_keycode = u16::try_from(place.keycode()).unwrap_or_default();
            (*stroke).group = u8::try_from(place.group()).unwrap_or_default();
        }
        (*stroke).is_modifier = u32::from(!modifier(key).is_empty());
    }
    event.set_device(Some(&keyboard));
    gtk::main_do_event(&mut event);
    Ok(())
}

/// One character, a name of UI Events' `key` values, or either after modifiers and `+`.
fn parse(text: &str) -> Option<KeyPress> {
    let mut characters = text.chars();
    if let (Some(character), None) = (characters.next(), characters.next()) {
        let key = character_key(character)?;
        let text = (!character.is_control() || character == TAB).then_some(character);
        return Some(KeyPress { held: Vec::new(), key, text });
    }
    match text.rsplit_once('+') {
        // A plus sign after modifiers.
        Some((before, "")) => combination(before.strip_suffix('+')?, "+"),
        Some((before, last)) => combination(before, last),
        None => Some(KeyPress { held: Vec::new(), key: named_key(text)?, text: None }),
    }
}

fn combination(modifiers: &str, last: &str) -> Option<KeyPress> {
    let held: Vec<Key> = modifiers.split('+').map(modifier_key).collect::<Option<_>>()?;
    let key = if held.contains(&key::Shift_L) { parse(&capital(last))?.key } else { parse(last)?.key };
    // A key cannot be pressed twice.
    let is_repeated = held.iter().enumerate().any(|(index, one)| held[..index].contains(one) || *one == key);
    (!is_repeated).then_some(KeyPress { held, key, text: None })
}

/// Shift types the capital of a letter. Another text stays.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if letter.to_uppercase().count() == 1 => letter.to_uppercase().collect(),
        _ => text.to_owned(),
    }
}

fn character_key(character: char) -> Option<Key> {
    match character {
        '\n' | '\r' => Some(key::Return),
        '\t' => Some(key::Tab),
        character if character.is_control() => None,
        // SAFETY: the function reads a table, and accepts any number.
        character => Some(Key::from(unsafe { gdk::ffi::gdk_unicode_to_keyval(character.into()) })),
    }
}

fn named_key(name: &str) -> Option<Key> {
    let key = match name {
        "Enter" => key::Return,
        "Tab" => key::Tab,
        "Backspace" => key::BackSpace,
        "Delete" => key::Delete,
        "Escape" => key::Escape,
        "ArrowUp" => key::Up,
        "ArrowDown" => key::Down,
        "ArrowLeft" => key::Left,
        "ArrowRight" => key::Right,
        "Home" => key::Home,
        "End" => key::End,
        "PageUp" => key::Page_Up,
        "PageDown" => key::Page_Down,
        "Insert" => key::Insert,
        "Space" => key::space,
        "F1" => key::F1,
        "F2" => key::F2,
        "F3" => key::F3,
        "F4" => key::F4,
        "F5" => key::F5,
        "F6" => key::F6,
        "F7" => key::F7,
        "F8" => key::F8,
        "F9" => key::F9,
        "F10" => key::F10,
        "F11" => key::F11,
        "F12" => key::F12,
        _ => return modifier_key(name),
    };
    Some(key)
}

fn modifier_key(name: &str) -> Option<Key> {
    match name {
        "Shift" => Some(key::Shift_L),
        "Control" => Some(key::Control_L),
        "Alt" => Some(key::Alt_L),
        "Meta" => Some(key::Meta_L),
        _ => None,
    }
}

fn modifier(held: Key) -> ModifierType {
    match held {
        key::Shift_L => ModifierType::SHIFT_MASK,
        key::Control_L => ModifierType::CONTROL_MASK,
        key::Alt_L => ModifierType::MOD1_MASK,
        // The display has no modifier for `Meta`. With the fourth one the shortcuts differ from plain keys (`shortcuts.rs`).
        key::Meta_L => ModifierType::META_MASK | ModifierType::MOD4_MASK,
        _ => ModifierType::empty(),
    }
}
