//! Results of operations, from the browser to the caller.
//!
//! The worker serializes the result of a driver once, with the members in the order of the contract. That text is
//! stored, serves unchanged as the response body, and can be parsed into the same type. Only the content of a capture
//! is transferred separately as bytes, and inserted at the end.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use utoipa::PartialSchema;
use utoipa::openapi::{RefOr, Schema};

use super::{Captured, Interruption, OperationOutput, OperationResult};

impl OperationResult {
    /// Address of the page after the operation, if the result has it.
    #[must_use]
    pub fn page_url(&self) -> Option<&str> {
        match self {
            Self::Navigate(result) => Some(&result.final_url),
            Self::Interact(result) => Some(&result.url),
            Self::Wait(result) => Some(&result.url),
            Self::StateCapture(result) => Some(&result.url),
            Self::Capture(result) => Some(&result.captured.url),
            Self::Snapshot(result) => Some(&result.url),
            Self::Evaluate(result) => Some(&result.url),
            Self::OpenPage(page) | Self::ActivatePage(page) => Some(&page.url),
            Self::Login(result) => result.post_login_url.as_deref(),
            _ => None,
        }
    }

    /// Takes time in proportion to the weight.
    pub fn store(self) -> serde_json::Result<StoredResult> {
        let json = to_raw_value(&self)?;
        let page_url = self.page_url().map(str::to_owned);
        Ok(StoredResult { json, content: self.into_content(), page_url })
    }
}

/// Can be returned without parsing it.
#[derive(Debug, Clone)]
pub struct StoredResult {
    /// Response body, without the content of a capture.
    pub json: Box<RawValue>,
    pub content: Option<Vec<u8>>,
    /// Address of the page after the operation. Only the worker that ran the operation knows it.
    pub page_url: Option<String>,
}

impl StoredResult {
    /// A capture lacks its content.
    pub fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.json.get())
    }

    /// Bytes of the content of a capture.
    #[must_use]
    pub fn content_bytes(&self) -> usize {
        self.content.as_ref().map_or(0, Vec::len)
    }

    /// Takes time in proportion to [`StoredResult::content_bytes`].
    pub fn into_body(self) -> serde_json::Result<Vec<u8>> {
        let Self { json, content, .. } = self;
        let Some(bytes) = content else { return Ok(Box::<str>::from(json).into_boxed_bytes().into_vec()) };
        let captured: Captured = serde_json::from_str(json.get())?;
        let whole = captured.with_content(bytes).map_err(serde_json::Error::custom)?;
        let mut body = Vec::with_capacity(json.get().len() + whole.content.len());
        serde_json::to_writer(&mut body, &whole)?;
        Ok(body)
    }
}

/// A dialog ended the operation early: the members of the usual result that are known, null for the others, and the
/// dialog.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct EarlyEnd(Map<String, Value>);

impl EarlyEnd {
    /// The members `unknown` are null. `known` follow them.
    pub(super) fn result(unknown: &[&str], known: &[(&str, Value)], by: Interruption) -> OperationResult {
        let Interruption { dialog, dialogs, .. } = by;
        let unknown = unknown.iter().map(|name| ((*name).to_owned(), Value::Null));
        let known = known.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let mut members: Map<String, Value> = unknown.chain(known).collect();
        if !dialogs.is_empty() {
            members.insert("dialogs".to_owned(), json!(dialogs));
        }
        members.insert("dialog".to_owned(), json!(dialog));
        OperationResult::EndedEarly(Self(members))
    }
}

impl OperationOutput for EarlyEnd {}

/// Schema of an enumeration, without its internal description, for use in a field.
pub(super) fn in_place<T: PartialSchema>() -> RefOr<Schema> {
    let mut schema = T::schema();
    if let RefOr::T(Schema::Object(values)) = &mut schema {
        values.description = None;
    }
    schema
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::time::Duration;

    use indexmap::IndexMap;

    use super::super::{
        ActionKind, AnsweredDialog, Capture, CaptureKind, CaptureResult, Condition, ConditionKind, Cookie, DialogType,
        Extract, Extracted, Interacted, LoginResult, Navigated, OnTimeout, OpenDialog, Operation, PageError,
        PageErrorKind, PageSnapshot, PageStanding, PageState, SearchResult, SessionState, Snapshot, StateCapture, Wait,
        Waited,
    };
    use super::*;
    use crate::limits::Limits;
    use crate::timestamp::Timestamp;

    const URL: &str = "https://example.com/";

    fn assert_kept<T: DeserializeOwned + Debug + PartialEq>(result: OperationResult, part: &T, text: &str) {
        let stored = result.store().expect("JSON");
        assert_eq!(stored.json.get(), text);
        assert_eq!(&stored.read::<T>().expect("the same type"), part);
        assert_eq!(String::from_utf8(stored.into_body().expect("a body")).as_deref(), Ok(text));
    }

    /// Contract: operations. Members are in the order shown there.
    #[test]
    fn result_serializes_in_contract_order_and_round_trips() {
        let navigated = Navigated {
            url: "https://example.com".to_owned(),
            status: Some(200),
            final_url: URL.to_owned(),
            duration_ms: 1,
            error: None,
            timed_out: false,
            dialogs: Vec::new(),
            dialog: None,
            download: None,
            page_submission_held: false,
        };
        assert_kept(
            OperationResult::Navigate(navigated.clone()),
            &navigated,
            r#"{"url":"https://example.com","status":200,"final_url":"https://example.com/","duration_ms":1}"#,
        );
        let error = PageError { kind: PageErrorKind::Timeout, http_status: None, message: "late".to_owned() };
        let late = Navigated { status: None, error: Some(error), timed_out: true, ..navigated };
        assert_kept(
            OperationResult::Navigate(late.clone()),
            &late,
            r#"{"url":"https://example.com","status":null,"final_url":"https://example.com/","duration_ms":1,"error":{"kind":"timeout","message":"late"},"timed_out":true}"#,
        );
        let interacted = Interacted {
            ok: true,
            kind: ActionKind::Tap,
            duration_ms: 2,
            url: URL.to_owned(),
            reason: None,
            delivered: None,
            dialogs: Vec::new(),
            dialog: None,
            submission_held: false,
            request_held: false,
            page_submission_held: false,
        };
        assert_kept(
            OperationResult::Interact(interacted.clone()),
            &interacted,
            r#"{"ok":true,"kind":"tap","duration_ms":2,"url":"https://example.com/"}"#,
        );
        let waited = Waited {
            matched: false,
            kind: ConditionKind::SelectorHidden,
            duration_ms: 3,
            url: URL.to_owned(),
            dialogs: Vec::new(),
            dialog: None,
            download: None,
            response: None,
            exception: None,
        };
        assert_kept(
            OperationResult::Wait(waited.clone()),
            &waited,
            r#"{"matched":false,"kind":"selector_hidden","duration_ms":3,"url":"https://example.com/"}"#,
        );
        let value =
            Map::from_iter([("price".to_owned(), json!(89.9)), ("a".to_owned(), json!([{"z": "1", "b": null}]))]);
        let extracted = Extracted { value, dialogs: Vec::new(), dialog: None };
        assert_kept(
            OperationResult::Extract(extracted.clone()),
            &extracted,
            r#"{"value":{"price":89.9,"a":[{"z":"1","b":null}]}}"#,
        );
        let page = PageSnapshot {
            snapshot: "link \"A\" [ref=e1]\n".to_owned(),
            nodes: 1,
            truncated: false,
            url: URL.to_owned(),
            duration_ms: 4,
            dialogs: Vec::new(),
            dialog: None,
            links: Vec::new(),
            foreign: String::new(),
        };
        assert_kept(
            OperationResult::Snapshot(page.clone()),
            &page,
            r#"{"snapshot":"link \"A\" [ref=e1]\n","nodes":1,"truncated":false,"url":"https://example.com/","duration_ms":4}"#,
        );
    }

    #[test]
    fn form_result_serializes_in_contract_order_and_round_trips() {
        for (results_visible, text) in [
            (None, r#"{"submitted":true,"query_truncated":false,"duration_ms":4}"#),
            (Some(false), r#"{"submitted":true,"query_truncated":false,"results_visible":false,"duration_ms":4}"#),
        ] {
            let search = SearchResult {
                submitted: true,
                query_truncated: false,
                results_visible,
                duration_ms: 4,
                dialogs: Vec::new(),
                dialog: None,
            };
            assert_kept(OperationResult::Search(search.clone()), &search, text);
        }
        let left = LoginResult {
            submitted: true,
            credentials_truncated: false,
            logged_in: true,
            post_login_url: Some(URL.to_owned()),
            duration_ms: 5,
            dialogs: Vec::new(),
            dialog: None,
        };
        assert_kept(
            OperationResult::Login(left.clone()),
            &left,
            r#"{"submitted":true,"credentials_truncated":false,"logged_in":true,"post_login_url":"https://example.com/","duration_ms":5}"#,
        );
        let stayed = LoginResult {
            submitted: false,
            credentials_truncated: true,
            logged_in: false,
            post_login_url: None,
            duration_ms: 6,
            dialogs: Vec::new(),
            dialog: None,
        };
        assert_kept(
            OperationResult::Login(stayed.clone()),
            &stayed,
            r#"{"submitted":false,"credentials_truncated":true,"logged_in":false,"duration_ms":6}"#,
        );
    }

    /// Contract: operations 46. The result names the dialog that interrupted the operation, and unknown members are
    /// null.
    #[test]
    fn interrupted_operation_returns_the_dialog_and_null_for_what_is_not_known() {
        let dialog = OpenDialog { kind: DialogType::BeforeUnload, message: "Leave?".to_owned(), default_value: None };
        let answered = AnsweredDialog { kind: DialogType::Alert, message: "Hi".to_owned(), accepted: false };
        let by = Interruption { dialog, dialogs: vec![answered], url: URL.to_owned(), duration_ms: 7 };
        let shown = r#""dialogs":[{"type":"alert","message":"Hi","accepted":false}],"#.to_owned()
            + r#""dialog":{"type":"beforeunload","message":"Leave?","default_value":null}"#;
        let text = |operation: Operation| {
            let result = operation.interrupted(by.clone()).expect("a result");
            result.store().expect("JSON").json.get().to_owned()
        };
        let wait = Wait { condition: Condition::Page, timeout: Duration::from_secs(1), on_timeout: OnTimeout::Fail };
        let expected = r#"{"matched":false,"kind":"page","duration_ms":7,"url":"https://example.com/","#;
        assert_eq!(text(Operation::Wait(wait)), format!("{expected}{shown}}}"));
        let extract = Operation::Extract(Extract { extractions: Vec::new() });
        assert_eq!(text(extract), format!(r#"{{"value":null,{shown}}}"#));
        let expected =
            r#"{"snapshot":null,"nodes":null,"truncated":null,"url":"https://example.com/","duration_ms":7,"#;
        assert_eq!(text(Operation::Snapshot(Snapshot::default())), format!("{expected}{shown}}}"));
        assert!(Operation::StateCapture(StateCapture {}).interrupted(by).is_none());
    }

    #[test]
    fn state_serializes_in_contract_order_and_round_trips() {
        let blank = SessionState {
            url: "about:blank".to_owned(),
            title: None,
            cookies: Vec::new(),
            local_storage: Some(IndexMap::new()),
            captured_at: Timestamp::EPOCH,
            page_state: None,
            truncated: false,
        };
        assert_kept(
            OperationResult::StateCapture(blank.clone()),
            &blank,
            r#"{"url":"about:blank","title":null,"cookies":[],"local_storage":{},"captured_at":"1970-01-01T00:00:00.000Z","page_state":null}"#,
        );
        let cookie = Cookie {
            name: "theme".to_owned(),
            value: "dark".to_owned(),
            domain: ".example.com".to_owned(),
            path: "/".to_owned(),
            expires: Some(Timestamp::EPOCH),
            http_only: true,
            secure: false,
            same_site: "Lax".to_owned(),
        };
        let error = PageError { kind: PageErrorKind::Http, http_status: Some(404), message: "Not Found".to_owned() };
        let full = SessionState {
            title: Some("Example".to_owned()),
            cookies: vec![cookie],
            local_storage: Some([("z", "1"), ("a", "2")].map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            page_state: Some(PageState { state: PageStanding::Errored, error: Some(error) }),
            truncated: true,
            ..blank
        };
        let text = r#"{"url":"about:blank","title":"Example","cookies":[{"name":"theme","value":"dark","domain":".example.com","#
            .to_owned()
            + r#""path":"/","expires":"1970-01-01T00:00:00.000Z","http_only":true,"secure":false,"same_site":"Lax"}],"#
            + r#""local_storage":{"z":"1","a":"2"},"captured_at":"1970-01-01T00:00:00.000Z","page_state":{"state":"errored","#
            + r#""error":{"kind":"http","http_status":404,"message":"Not Found"}},"truncated":true}"#;
        assert_kept(OperationResult::StateCapture(full.clone()), &full, &text);
    }

    /// Contract: operations. The content is between the encoding and the media type, although it is transferred separately.
    #[test]
    fn capture_result_contains_its_content() {
        for (kind, bytes, text) in [
            (
                CaptureKind::Screenshot,
                b"hi".as_slice(),
                r#"{"kind":"screenshot","encoding":"base64","content":"aGk=","content_type":"image/png","bytes":2,"duration_ms":3,"url":"u"}"#,
            ),
            (
                CaptureKind::Pdf,
                b"",
                r#"{"kind":"pdf","encoding":"base64","content":"","content_type":"application/pdf","bytes":0,"duration_ms":3,"url":"u"}"#,
            ),
            (
                CaptureKind::DomSnapshot,
                "<p title=\"é\">".as_bytes(),
                r#"{"kind":"dom_snapshot","encoding":"utf8","content":"<p title=\"é\">","content_type":"text/html; charset=utf-8","bytes":14,"duration_ms":3,"url":"u"}"#,
            ),
        ] {
            let capture = Capture::new(kind, false, &Limits::default());
            let captured = Captured::without_content(&capture, bytes.len(), 3, "u".to_owned());
            let result =
                OperationResult::Capture(CaptureResult { captured: captured.clone(), content: bytes.to_vec() });
            let stored = result.store().expect("JSON");
            assert_eq!(stored.read::<Captured>().expect("a capture"), captured);
            let whole = captured.with_content(bytes.to_vec()).expect("text");
            let body = stored.into_body().expect("a body");
            assert_eq!(serde_json::from_slice::<Captured>(&body).expect("a capture"), whole);
            assert_eq!(String::from_utf8(body).as_deref(), Ok(text));
        }
        let capture = Capture::new(CaptureKind::DomSnapshot, false, &Limits::default());
        let captured = Captured::without_content(&capture, 1, 3, "u".to_owned());
        let no_text = OperationResult::Capture(CaptureResult { captured, content: vec![0xff] });
        assert!(no_text.store().expect("JSON").into_body().is_err());
    }

    #[test]
    fn result_weight_counts_page_content() {
        let large = "x".repeat(100_000);
        let value = Map::from_iter([("a".to_owned(), Value::from(vec![large.clone()]))]);
        assert!(OperationResult::Extract(Extracted { value, dialogs: Vec::new(), dialog: None }).weight() >= 65_536);
        let state = SessionState {
            url: URL.to_owned(),
            title: None,
            cookies: Vec::new(),
            local_storage: Some([("a".to_owned(), large)].into()),
            captured_at: Timestamp::EPOCH,
            page_state: None,
            truncated: false,
        };
        assert!(OperationResult::StateCapture(state).weight() >= 100_000);
    }
}
