use std::io::{self, Read as _};

use kitfleet_types::validation::Invalid;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Document, DocumentError, read};
use crate::Cookie;
use crate::cookies::{self, MAX_COOKIES};
use crate::scratch::Scratch;

fn document() -> Value {
    json!({
        "format": "kitfleet.profile", "version": 2, "exported_at": "2026-11-21T00:00:00.000Z",
        "source_profile_id": "prof_1", "source_account_id": "acc_1", "name": "Shop", "archetype": "iphone",
        "cookies": [Cookie::sample("sid")],
        "origins": [{
            "origin": "https://a.example", "local_storage": [["a", "b"]],
            "databases": [{
                "name": "cart", "version": 1,
                "records": [{
                    "store": "items", "key": [1, "x", {"date": 5}], "value": {"object": [["id", 1], ["at", {"date": 0}]]},
                    "index_keys": [{"index": "by", "key": {"bytes": "AQ=="}}],
                }],
                "stores": [{"name": "items", "key_path": "id", "auto_increment": true, "last_key": 1,
                            "indexes": [{"name": "by", "key_path": ["a", "b"], "unique": true}]}],
            }],
        }],
        "left_out": [],
    })
}

fn read_text(text: &str) -> Result<Document, DocumentError> {
    let below = tempfile::tempdir().expect("a folder");
    read(&mut text.as_bytes(), Scratch::new(below.path()).expect("a folder"), &mut Vec::new())
}

fn refused(change: impl FnOnce(&mut Value)) -> String {
    let mut document = document();
    change(&mut document);
    match read_text(&document.to_string()) {
        Err(DocumentError::Invalid(Invalid(fields))) => fields[0].field.clone(),
        other => panic!("{other:?} for {document}"),
    }
}

#[test]
fn invalid_cookies_are_refused() {
    let read = read_text(&document().to_string()).expect("a document");
    assert_eq!((read.name.as_str(), read.source_account_id.as_deref()), ("Shop", Some("acc_1")));
    assert_eq!(read.dump.expect("what it holds").cookies, [Cookie::sample("sid")]);
    for (member, value) in [
        ("name", json!("a;b")),
        ("value", json!("a\nb")),
        ("domain", json!("a b")),
        ("path", json!("x")),
        ("expires", json!(-1)),
        ("same_site", json!("lax")),
        ("secure", json!(1)),
    ] {
        assert_eq!(refused(|document| document["cookies"][0][member] = value), format!("cookies.0.{member}"));
    }
    let many = |document: &mut Value| document["cookies"] = json!(vec![Cookie::sample("a"); MAX_COOKIES + 1]);
    assert_eq!(refused(many), "cookies");
    let fat = Cookie { value: "v".repeat(4_000), ..Cookie::sample("a") };
    let fits = cookies::MAX_BYTES / fat.bytes();
    assert_eq!(refused(|document| document["cookies"] = json!(vec![fat; 5_000])), format!("cookies.{fits}"));
    let mut spelled = document();
    spelled["cookies"][0]["domain"] = json!(".Example.COM");
    let dump = read_text(&spelled.to_string()).expect("a document").dump.expect("what it holds");
    assert_eq!(dump.cookies, [Cookie::sample("sid")]);
}

#[test]
fn missing_members_are_reported_together() {
    let read = read_text("{}").expect("one that lacks everything");
    assert_eq!((read.name.as_str(), read.archetype.as_str(), read.dump.is_none()), ("", "", true));
    let missing = read.missing.check().expect_err("some of it");
    let fields: Vec<_> = missing.0.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["format", "version"]);
}

#[test]
fn invalid_site_data_is_refused() {
    let site = "origins.0";
    let database = "origins.0.databases.0";
    let record = "origins.0.databases.0.records.0";
    let at =
        |pointer: &str, value: Value| refused(|document| *document.pointer_mut(pointer).expect("a member") = value);
    for origin in ["https://a.example/", "../a", "https://A.example", "https://a.example:443", "file:///x", "x\0"] {
        assert_eq!(at("/origins/0/origin", json!(origin)), format!("{site}.origin"), "{origin}");
    }
    assert_eq!(at("/origins/0/databases/0/version", json!(0)), format!("{database}.version"));
    assert_eq!(at("/origins/0/databases/0/stores/0/name", json!("other")), format!("{database}.records"));
    assert_eq!(at("/origins/0/databases/0/stores/0/indexes/0/name", json!("other")), format!("{database}.records"));
    assert_eq!(at("/origins/0/databases/0/stores/0/key_path", json!([])), format!("{database}.stores.0.key_path"));
    for key in [json!(null), json!({"undefined": true}), json!({"number": "NaN"}), json!("k".repeat(70_000))] {
        assert_eq!(at("/origins/0/databases/0/records/0/key", key), format!("{record}.key"));
    }
    for value in [json!({"ref": 1}), json!({"blob": 1}), json!({"date": 9e15}), json!({"bytes": "#"}), json!({})] {
        assert_eq!(at("/origins/0/databases/0/records/0/value", value), format!("{record}.value"));
    }
    let twice = |list: &'static str| {
        move |document: &mut Value| {
            let list = document.pointer_mut(list).and_then(Value::as_array_mut).expect("a list");
            list.push(list[0].clone());
        }
    };
    assert_eq!(refused(twice("/origins")), "origins.1");
    assert_eq!(refused(twice("/origins/0/databases")), "origins.0.databases.1.name");
    assert_eq!(refused(twice("/origins/0/databases/0/stores")), format!("{database}.stores"));
    assert_eq!(refused(twice("/origins/0/databases/0/records")), "origins.0.databases.0.records.1.key");
    let embedded = |document: &mut Value| document["origins"][0]["embedded_in"] = json!("https://b.example");
    assert_eq!(refused(embedded), "origins.0.local_storage");
}

#[test]
fn invalid_json_is_refused() {
    let good = document().to_string();
    let twice = good.replacen('{', r#"{"name": "a", "#, 1);
    assert!(matches!(read_text(&twice), Err(DocumentError::Invalid(_))));
    for deep in ["[", r#"{"set":["#] {
        let deep = good.replacen(r#""version":2"#, &format!(r#""version":2,"more":{}"#, deep.repeat(100_000)), 1);
        assert!(read_text(&deep).is_err());
    }
    for length in [0, 1, good.len() / 2, good.len() - 1] {
        assert!(matches!(read_text(&good[..length]), Err(DocumentError::Malformed(_))), "{length}");
    }
    assert!(matches!(read_text(&format!("{good}x")), Err(DocumentError::Malformed(_))));
    assert!(matches!(read_text("[1]"), Err(DocumentError::Invalid(_))));
}

#[test]
fn endless_tokens_are_refused() {
    let value = r#"{"origins": [{"databases": [{"records": [{"value": "#;
    let starts = ["{\"", "{\"version\": 1", "{\"name\": \"", "{\"more\": {\"", "{\"more\": [1"];
    let starts = starts
        .map(str::to_owned)
        .into_iter()
        .chain(["\"", "1", "{\"bytes\": \"", "{\"date\": 1"].map(|at| format!("{value}{at}")));
    for start in starts {
        let below = tempfile::tempdir().expect("a folder");
        let into = Scratch::new(below.path()).expect("a folder");
        let mut endless = start.as_bytes().chain(io::repeat(b'1'));
        assert!(read(&mut endless, into, &mut Vec::new()).is_err(), "{start}");
    }
}

proptest! {
    #[test]
    fn reader_never_panics_on_changed_documents(changes in prop::collection::vec((any::<prop::sample::Index>(), "[\\[\\]{}\",:0-9a-z\\\\]{0,3}"), 1..4)) {
        let mut text = document().to_string();
        for (at, change) in changes {
            let at = at.index(text.len());
            text.replace_range(at..=at, &change);
        }
        let _ = read_text(&text);
    }
}

/// The limit applies to the whole document and not only to one record, because each key is inserted in order.
#[test]
fn index_keys_of_a_document_are_limited() {
    let keys = vec![r#"{"index":"by","key":1}"#; 10_000].join(",");
    let record = |key: usize| format!(r#"{{"store":"items","key":{key},"value":null,"index_keys":[{keys}]}}"#);
    let mut text = document().to_string();
    let at = text.find(r#"{"store":"items""#).or_else(|| text.find(r#"{"index_keys""#)).expect("its record");
    let records: Vec<_> = (0..100).map(record).collect();
    text.insert_str(at, &format!("{},", records.join(",")));
    let Err(DocumentError::Invalid(Invalid(fields))) = read_text(&text) else { panic!("the document was accepted") };
    assert_eq!(fields[0].field, "origins.0.databases.0.records.100.index_keys");
}
