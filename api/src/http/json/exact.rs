//! An integer outside the 64-bit range is parsed as a floating-point number, and the original is lost.

/// They contain an integer outside the 64-bit range.
pub fn rounded(object: &[u8], known: &[&str]) -> Vec<String> {
    let (mut depth, mut at, mut text, mut found) = (0_usize, 0, &b"\"\""[..], Vec::new());
    let mut member = String::new();
    // Shorter numbers cannot be out of range.
    if !object.split(|byte| !byte.is_ascii_digit()).any(|digits| digits.len() > 18) {
        return found;
    }
    while let Some(byte) = object.get(at) {
        let part = match byte {
            b'"' => {
                text = &object[at..][..text_len(&object[at..])];
                text
            }
            b'-' | b'0'..=b'9' => {
                let number = &object[at..][..number_len(&object[at..])];
                if !holds(number) && known.contains(&member.as_str()) && !found.contains(&member) {
                    found.push(member.clone());
                }
                number
            }
            _ => &object[at..=at],
        };
        match byte {
            b':' if depth == 1 => member = serde_json::from_slice(text).unwrap_or_default(),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += part.len();
    }
    found
}

/// Returns whether a number is in the 64-bit range, or is not an integer.
fn holds(number: &[u8]) -> bool {
    let is_integer = !number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    let fits = |number: &str| number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    !is_integer || std::str::from_utf8(number).is_ok_and(fits)
}

fn number_len(json: &[u8]) -> usize {
    json.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')).count()
}

/// Length including both quotes.
fn text_len(json: &[u8]) -> usize {
    let mut escaped = false;
    let end = json.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(json.len(), |inside| inside + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_with_integers_that_are_rounded_are_named() {
        let json = br#"{"a": 18446744073709551615, "b": {"c": [1, -9223372036854775809]}, "d": "99999999999999999999",
                        "\"e\\": [18446744073709551616], "f": 1e30, "g": 0.12345678901234567890, "h": -9223372036854775808}"#;
        let known = ["a", "b", "c", "\"e\\", "f", "g", "h"];
        assert_eq!(rounded(json, &known), ["b", "\"e\\"]);
        assert_eq!(rounded(json, &["a", "b"]), ["b"]);
        assert!(rounded(br#"{"a": 1}"#, &known).is_empty());
    }
}
