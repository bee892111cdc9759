//! Keys and chords of the action `press` (contract: operations 13).

use crate::limits::Limits;
use crate::validation::Rules;

/// They can be held while another key is pressed.
const MODIFIERS: [&str; 4] = ["Shift", "Control", "Alt", "Meta"];

const MAX_NAME_CHARS: usize = 20;

/// A key, or a key after modifiers. Only the browser knows whether the key exists.
pub(super) fn require_chord(rules: &mut Rules, chord: &str, limits: &Limits, field: &str) {
    let characters = chord.chars().count();
    if !(1..=limits.press_key_chars).contains(&characters) {
        return rules.length(chord, 1, limits.press_key_chars, field);
    }
    let (held, key) = parts(chord);
    let has_long_name = held.iter().chain([&key]).any(|name| name.chars().count() > MAX_NAME_CHARS);
    let is_repeated = held.iter().enumerate().any(|(index, one)| held[..index].contains(one) || *one == key);
    if has_long_name {
        rules.require(false, field, format!("must have names of keys of at most {MAX_NAME_CHARS} characters"));
    } else if !held.iter().all(|name| MODIFIERS.contains(name)) {
        rules.require(
            false,
            field,
            "must be a character or the name of a key, after Shift, Control, Alt or Meta and +",
        );
    } else {
        rules.require(!is_repeated, field, "must not hold a key that is pressed already");
    }
}

/// The keys that are held, and the key that is pressed. A plus sign is a key at the end.
fn parts(chord: &str) -> (Vec<&str>, &str) {
    match chord.rsplit_once('+') {
        _ if chord == "+" => (Vec::new(), chord),
        Some((held, "")) => (held.strip_suffix('+').unwrap_or("").split('+').collect(), "+"),
        Some((held, key)) => (held.split('+').collect(), key),
        None => (Vec::new(), chord),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_taken(chord: &str) -> bool {
        let mut rules = Rules::default();
        require_chord(&mut rules, chord, &Limits::default(), "action.key");
        rules.check().is_ok()
    }

    #[test]
    fn chords_have_each_modifier_at_most_once() {
        for chord in [
            "a",
            "+",
            "é",
            "Enter",
            "Shift+Tab",
            "Control++",
            "Control+Shift+ArrowLeft",
            "Meta+Alt+Shift+Control+PageDown",
        ] {
            assert!(is_taken(chord), "{chord}");
        }
        for chord in [
            "",
            "++",
            "Shift+",
            "+a",
            "Enter+a",
            "Shift++a",
            "shift+a",
            "Shift+Shift",
            "Shift+Alt+Shift+a",
            &"a".repeat(21),
            &format!("Shift+{}", "a".repeat(21)),
            "Control+Shift+Alt+Meta+Control+ArrowRight",
        ] {
            assert!(!is_taken(chord), "{chord}");
        }
    }
}
