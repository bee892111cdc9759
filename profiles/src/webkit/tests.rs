use proptest::collection::vec;
use proptest::prelude::*;

use super::key_paths::KeyPath;
use super::keys::Key;
use super::text::Text;
use super::values::{BigInt, Error, ErrorKind, NoValue, Value, ViewKind};
use crate::portable::spelling;

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("text"), 16).expect("hexadecimal");
    hex.as_bytes().chunks(2).map(digit).collect()
}

/// The encoded values are from `WebKitGTK` 2.50.
#[test]
fn values_of_webkit_round_trip() {
    for (hex, spelled) in [
        ("0f00000003", r#"{"undefined":true}"#),
        ("0f00000006", "0"),
        ("0f00000005f9ffffff", "-7"),
        ("0f0000000a0000000000000080", r#"{"number":"-0"}"#),
        ("0f0000000a000000000000f43f", "1.25"),
        ("0f0000002f0002000000d20a3f4eeee073c3f60fe98e01000000", r#"{"bigint":"0x18ee90ff6c373e0ee4e3f0ad2"}"#),
        ("0f0000001004000080c3bcc3b1", "\"\u{c3}\u{bc}\u{c3}\u{b1}\""),
        ("0f000000100200000000d87800", r#"{"utf16":"ANh4AA=="}"#),
        ("0f0000000b0000000087d63241", r#"{"date":1234567}"#),
        (
            "0f00000001030000000000000007020000000503000000fffffffffdffffff050000806e616d656410010000806effffffff",
            r#"{"array":[[0,1],[2,3]],"length":3,"named":[["named","n"]]}"#,
        ),
        (
            "0f0000001e1001000080610702010000807807ffffffff1e1fffffffff1fffffffff",
            r#"{"map":[["a",1],[{"object":[["x",1]]},{"map":[]}]]}"#,
        ),
        ("0f0000001d0710010000806102ffffffff20ffffffff", r#"{"set":[1,"a",{"object":[]}]}"#),
        (
            "0f000000160200000000000000000300000000000000150300000000000000090807",
            r#"{"view":"Uint8Array","offset":0,"length":3,"of":{"bytes":"CQgH"}}"#,
        ),
        ("0f0000001203000080612b62020000806769", r#"{"regexp":"a+b","flags":"gi"}"#),
        ("0f000000020400008073656c661300ffffffff", r#"{"object":[["self",{"ref":0}]]}"#),
        ("0f0000001c0000000000000c40", r#"{"boxed":3.5}"#),
    ] {
        let value = Value::decode(&bytes(hex)).expect("a value");
        assert_eq!(spelling::written(&value), spelled);
        assert_eq!(value.encode().expect("a value"), bytes(hex), "{spelled}");
        let read = spelling::read(spelled).expect("a value");
        assert_eq!(read.encode().expect("a value"), bytes(hex), "{spelled}");
    }
    // A repeated string is expanded.
    let repeated =
        bytes("0f00000001030000000000000010030000807265700100000010feffffff000200000010feffffff00ffffffffffffffff");
    assert_eq!(spelling::written(&Value::decode(&repeated).expect("a value")), r#"["rep","rep","rep"]"#);
}

/// A blob, an image, a growable buffer, and other versions.
#[test]
fn unsupported_values_are_refused() {
    for hex in [
        "0f0000000f39000080",
        "0f0000000e0200000002000000100000000000000000000000000000000000",
        "0f000000360400000000000000080000000000000000000000",
        "1000000003",
        "0f000001ff",
        "0e00000003",
    ] {
        assert_eq!(Value::decode(&bytes(hex)).expect_err(hex), NoValue::Unsupported);
    }
    for spelled in [r#"{"blob":"x"}"#, "{}", r#"{"date":0,"bigint":"0x1"}"#, r#"{"bigint":"7"}"#, r#"{"error":"Oops"}"#]
    {
        assert!(spelling::read(spelled).is_none(), "{spelled}");
    }
}

#[test]
fn impossible_values_are_refused() {
    let buffer = || Box::new(Value::Buffer(vec![0; 8]));
    let deep = (0..100).fold(Value::Null, |inner, _| Value::Set { items: vec![inner], named: Vec::new() });
    for value in [
        Value::Reference(0),
        Value::View { kind: ViewKind::Uint8Array, offset: 8, length: 1, of: buffer() },
        Value::View { kind: ViewKind::Uint32Array, offset: 2, length: 4, of: buffer() },
        Value::View { kind: ViewKind::Uint8Array, offset: u64::MAX, length: 2, of: buffer() },
        Value::View { kind: ViewKind::Uint8Array, offset: 0, length: 0, of: Box::new(Value::Null) },
        Value::Array { length: 1, items: vec![(1, Value::Null)], named: Vec::new() },
        Value::Date(f64::INFINITY),
        Value::RegExp { pattern: Text::from("a"), flags: Text::from("gg") },
        Value::Set { items: vec![Value::Null; 200_001], named: Vec::new() },
        deep,
    ] {
        assert!(value.encode().is_err(), "{value:?}");
    }
    // Very deep values, and lengths beyond the data.
    assert_eq!(
        Value::decode(&[&bytes("0f000000")[..], &vec![0x1d; 1_000_000]].concat()).expect_err("deep"),
        NoValue::TooLarge
    );
    assert!(Value::decode(&bytes("0f00000015ffffffffffffff7f")).is_err());
    assert!(Key::decode(&[&[0][..], &[0xa0, 1, 0, 0, 0, 0, 0, 0, 0].repeat(1_000)].concat()).is_none());
    assert!(Key::decode(&bytes("00a0ffffffffffffffff")).is_none());
}

#[test]
fn key_paths_match_webkit() {
    for (hex, path) in [
        ("7479706500000000000000000000000000780513", KeyPath::None),
        (
            "747970650000000001000000000000000078050000000000737472696e6700006b2e69000073071327",
            KeyPath::One("k.i".to_owned()),
        ),
        ("747970650000000001000000000000000078050000000000737472696e670000000073071324", KeyPath::One(String::new())),
        (
            "7479706500000000020000000000000000780500000000006172726179000000737472696e6700006964000073070e00737472696e\
             6700006e000073070d0f1e0061617b73767d061348",
            KeyPath::Several(vec!["id".to_owned(), "n".to_owned()]),
        ),
    ] {
        let hex = hex.replace(' ', "");
        assert_eq!(KeyPath::decode(&bytes(&hex)), Some(path.clone()));
        assert_eq!(path.encode(), bytes(&hex));
    }
}

fn text() -> BoxedStrategy<Text> {
    prop_oneof![
        4 => any::<String>().prop_map(Text::Plain),
        1 => vec(any::<u16>(), 0..8).prop_map(Text::of_units),
    ]
    .boxed()
}

fn big_int() -> impl Strategy<Value = BigInt> {
    (any::<bool>(), vec(any::<u64>(), 0..4), 1..u64::MAX).prop_map(|(negative, mut digits, last)| {
        digits.push(last);
        BigInt { negative, digits }
    })
}

fn date() -> impl Strategy<Value = f64> {
    prop_oneof![Just(f64::NAN), -8.64e15..8.64e15]
}

fn error() -> impl Strategy<Value = Error> {
    let texts = proptest::option::of(text());
    let kind = proptest::sample::select(ErrorKind::ALL);
    (kind, texts.clone(), any::<(u32, u32)>(), texts.clone(), texts.clone(), texts).prop_map(
        |(kind, message, (line, column), source, stack, cause)| Error {
            kind,
            message,
            line,
            column,
            source,
            stack,
            cause,
        },
    )
}

fn view() -> impl Strategy<Value = Value> {
    (proptest::sample::select(ViewKind::ALL), 0_u64..4, 0_u64..4).prop_map(|(kind, offset, length)| Value::View {
        kind,
        offset: 8 * offset,
        length: 8 * length,
        of: Box::new(Value::Buffer(vec![7; 64])),
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Undefined),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<f64>().prop_map(Value::Number),
        any::<i32>().prop_map(|number| Value::Number(number.into())),
        big_int().prop_map(Value::BigInt),
        text().prop_map(Value::Text),
        date().prop_map(Value::Date),
        vec(any::<u8>(), 0..20).prop_map(Value::Buffer),
        view(),
        text().prop_map(|pattern| Value::RegExp { pattern, flags: Text::from("gimsuy") }),
        error().prop_map(|error| Value::Error(Box::new(error))),
        any::<bool>().prop_map(Value::BoxedBool),
        any::<f64>().prop_map(Value::BoxedNumber),
        text().prop_map(Value::BoxedText),
        big_int().prop_map(Value::BoxedBigInt),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let members = vec((text(), inner.clone()), 0..4);
        prop_oneof![
            members.clone().prop_map(Value::Object),
            (vec((0_u32..9, inner.clone()), 0..5), 9_u32.., members.clone())
                .prop_map(|(items, length, named)| Value::Array { length, items, named }),
            vec(inner.clone(), 0..5).prop_map(|items| Value::Array {
                length: u32::try_from(items.len()).expect("few"),
                items: (0..).zip(items).collect(),
                named: Vec::new(),
            }),
            (vec((inner.clone(), inner.clone()), 0..4), members.clone())
                .prop_map(|(entries, named)| Value::Map { entries, named }),
            (vec(inner, 0..4), members).prop_map(|(items, named)| Value::Set { items, named }),
        ]
    })
}

fn key() -> impl Strategy<Value = Key> {
    let leaf = prop_oneof![
        any::<f64>().prop_filter("a number", |number| !number.is_nan()).prop_map(|number| Key::Number(number + 0.0)),
        (-8.64e15..8.64e15).prop_map(|date: f64| Key::Date(date + 0.0)),
        text().prop_map(Key::Text),
        vec(any::<u8>(), 0..20).prop_map(Key::Binary),
    ];
    leaf.prop_recursive(4, 20, 5, |inner| vec(inner, 0..5).prop_map(Key::Array))
}

proptest! {
    #[test]
    fn value_round_trips_in_both_forms(value in value()) {
        let encoded = value.encode().expect("a value");
        let decoded = Value::decode(&encoded).expect("a value");
        prop_assert_eq!(decoded.encode().expect("a value"), &encoded[..]);
        let read = spelling::read(&spelling::written(&value)).expect("a value");
        // NaN has several bit patterns.
        let same = format!("{:?}", Value::decode(&read.encode().expect("a value"))) == format!("{:?}", Ok::<_, NoValue>(decoded));
        prop_assert!(same, "{}", spelling::written(&value));
    }

    #[test]
    fn value_decoder_never_panics(mut bytes in vec(prop_oneof![0_u8..60, any::<u8>()], 0..200)) {
        let _ = Value::decode(&bytes);
        bytes.splice(..0, 15_u32.to_le_bytes());
        if let Ok(value) = Value::decode(&bytes) {
            prop_assert!(value.encode().is_ok());
            prop_assert!(spelling::read(&spelling::written(&value)).is_some());
        }
    }

    #[test]
    fn changed_value_decodes_or_is_refused(value in value(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut encoded = value.encode().expect("a value");
        let at = at.index(encoded.len());
        encoded[at] = byte;
        if let Ok(value) = Value::decode(&encoded) {
            prop_assert!(value.encode().is_ok());
        }
    }

    #[test]
    fn value_reader_never_panics(text in "[\\[\\]{}\",:a-z0-9.\\-]{0,60}") {
        let _ = spelling::read(&text);
    }

    #[test]
    fn key_round_trips(key in key()) {
        prop_assert_eq!(Key::decode(&key.encode().expect("a small one")), Some(key.clone()));
        let read = spelling::read(&spelling::written(&key.clone().into_value())).expect("a value");
        prop_assert_eq!(Key::of(&read), Some(key));
    }

    #[test]
    fn key_decoder_never_panics(bytes in vec(any::<u8>(), 0..100)) {
        let _ = Key::decode(&bytes);
        let _ = Key::decode(&[&[0], &bytes[..]].concat());
        let _ = KeyPath::decode(&bytes);
    }

    #[test]
    fn key_path_round_trips(paths in vec("[^\\x00]{0,40}", 1..30), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let path = KeyPath::Several(paths);
        let mut encoded = path.encode();
        prop_assert_eq!(KeyPath::decode(&encoded), Some(path));
        let at = at.index(encoded.len());
        encoded[at] = byte;
        let _ = KeyPath::decode(&encoded);
    }
}
