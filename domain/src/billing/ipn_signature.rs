//! Verifies the signature of the crypto processor's notices: hex of HMAC-SHA512 over the body, with sorted keys in
//! every object, without white space, and with each scalar in its original spelling.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::value::RawValue;
use sha2::Sha512;

/// Each level is parsed once more than the level around it.
const DEEPEST: usize = 16;

/// Form in which the sender writes an array before it signs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrays {
    Kept,
    /// The processor's own JavaScript makes the indices keys.
    AsObjects,
}

/// Returns true when `signature` signs this notice with `secret`, in one of the processor's two forms.
///
/// A body that is not JSON has no keys to sort and is verified unchanged. A body that is nested too deeply has no valid
/// signature.
///
/// # Panics
/// Never panics: HMAC accepts keys of any length.
#[must_use]
pub fn is_valid(signature: &str, body: &[u8], secret: &str) -> bool {
    let mut expected = [0; 64];
    if hex::decode_to_slice(signature.trim(), &mut expected).is_err() {
        return false;
    }
    let signs = |signed: &[u8]| {
        let mut mac = Hmac::<Sha512>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
        mac.update(signed);
        mac.verify_slice(&expected).is_ok()
    };
    let Ok(notice) = serde_json::from_slice::<&RawValue>(body) else { return signs(body) };
    [Arrays::Kept, Arrays::AsObjects].into_iter().any(|arrays| {
        let mut signed = String::with_capacity(body.len());
        write_sorted(notice, arrays, DEEPEST, &mut signed).is_some() && signs(signed.as_bytes())
    })
}

/// `None` when the value is nested too deeply. The last value of a repeated key is used.
fn write_sorted(value: &RawValue, arrays: Arrays, levels: usize, out: &mut String) -> Option<()> {
    let text = value.get();
    match text.as_bytes().first()? {
        b'{' => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            let members = members.into_iter().map(|(key, value)| (serde_json::to_string(&key).ok(), value));
            write_members(members, ('{', '}'), arrays, levels, out)
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            if arrays == Arrays::AsObjects {
                let members = items.into_iter().enumerate();
                write_members(
                    members.map(|(index, item)| (Some(format!("\"{index}\"")), item)),
                    ('{', '}'),
                    arrays,
                    levels,
                    out,
                )
            } else {
                write_members(items.into_iter().map(|item| (None, item)), ('[', ']'), arrays, levels, out)
            }
        }
        _ => {
            out.push_str(text);
            Some(())
        }
    }
}

fn write_members<'a>(
    members: impl Iterator<Item = (Option<String>, &'a RawValue)>,
    (open, close): (char, char),
    arrays: Arrays,
    levels: usize,
    out: &mut String,
) -> Option<()> {
    let levels = levels.checked_sub(1)?;
    out.push(open);
    for (index, (key, value)) in members.enumerate() {
        if index > 0 {
            out.push(',');
        }
        if let Some(key) = key {
            out.push_str(&key);
            out.push(':');
        }
        write_sorted(value, arrays, levels, out)?;
    }
    out.push(close);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(body: &str, arrays: Arrays) -> Option<String> {
        let mut out = String::new();
        write_sorted(serde_json::from_str(body).expect("JSON"), arrays, DEEPEST, &mut out).map(|()| out)
    }

    #[test]
    fn keys_are_sorted_at_every_depth_and_white_space_is_removed() {
        let body = r#" { "b" : { "z" : 1, "a" : [ { "y": 2, "x": 3 } ] }, "a" : null } "#;
        assert_eq!(sorted(body, Arrays::Kept).expect("JSON"), r#"{"a":null,"b":{"a":[{"x":3,"y":2}],"z":1}}"#);
    }

    #[test]
    fn scalars_are_kept_as_they_were_written() {
        let body = r#"{"b":1.10,"a":1e-7,"c":100000000000000000000.0,"d":"\u00e9 é \/"}"#;
        assert_eq!(
            sorted(body, Arrays::Kept).expect("JSON"),
            r#"{"a":1e-7,"b":1.10,"c":100000000000000000000.0,"d":"\u00e9 é \/"}"#
        );
    }

    #[test]
    fn arrays_are_signed_as_objects() {
        let body = r#"{"b":[10,[],{"d":1,"c":2}],"a":[]}"#;
        assert_eq!(sorted(body, Arrays::AsObjects).expect("JSON"), r#"{"a":{},"b":{"0":10,"1":{},"2":{"c":2,"d":1}}}"#);
        let twelve = format!("[{}]", ["0"; 12].join(","));
        assert!(
            sorted(&twelve, Arrays::AsObjects).expect("JSON").contains(r#""9":0,"10":0"#),
            "indices keep their order"
        );
    }

    #[test]
    fn only_the_two_forms_are_accepted() {
        let body = r#"{"order_id":"ord_1","fee":{"b":0.10,"a":["é"]}}"#.as_bytes();
        // Computed with Python's hmac over the two sorted texts.
        let kept = "eb4fca5eb952925ed6e2ed5d72b5aaddaac0d289a2bd2ba1f57ae9b193d8aff3820642687c8137228be4be0db3b7af8d2f87703b38763a7bb387c8bb27b6d9d0";
        let as_objects = "80274f05748f5c9f07fdf70090408e186795f253c26f9f4e99dcf0f070e268a9a3259230342d203c265f51a654f0f5f4aec984102b51bf337a381b7118dbc9bd";
        for signature in [kept, as_objects] {
            assert!(is_valid(signature, body, "ipn"));
            assert!(!is_valid(signature, body, "other"));
            assert!(!is_valid(signature, &String::from_utf8_lossy(body).replace("0.10", "0.1").into_bytes(), "ipn"));
        }
        assert!(!is_valid("", body, "ipn"));
        assert!(!is_valid("zz", body, "ipn"));
        assert!(!is_valid(kept, b"{", "ipn"));
        assert!(!is_valid(kept, b"\xff", "ipn"));
    }

    #[test]
    fn body_nested_too_deeply_has_no_valid_signature() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(sorted(&nested(DEEPEST), Arrays::Kept).is_some());
        assert!(sorted(&nested(DEEPEST + 1), Arrays::Kept).is_none());
        assert!(!is_valid(&"0".repeat(128), nested(100_000).as_bytes(), "ipn"));
    }
}
