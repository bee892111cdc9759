//! Reports unknown fields of request bodies (contract: requests 8).
//!
//! A body is read only after authentication, so that other callers get no report.

use std::sync::{Arc, OnceLock};

use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use kitfleet_types::limits::Limits;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::http::state::App;

const HEADER: HeaderName = HeaderName::from_static("x-service-unknown-fields");
/// They would break the header or its list. The percent sign makes decoding exact.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b',');

/// Value of the header, set where the body is read.
#[derive(Clone)]
struct UnknownFieldNames {
    app: App,
    names: Arc<OnceLock<String>>,
}

pub async fn report(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let noted = UnknownFieldNames { app, names: Arc::default() };
    request.extensions_mut().insert(noted.clone());
    let mut response = next.run(request).await;
    if let Some(value) = noted.names.get().and_then(|names| HeaderValue::from_str(names).ok()) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

pub fn note<'a>(request: &Extensions, names: impl Iterator<Item = &'a str>) {
    let mut names = names.peekable();
    if let Some(noted) = request.get::<UnknownFieldNames>()
        && names.peek().is_some()
    {
        noted.names.get_or_init(|| encode(names, &noted.app.config.limits));
    }
}

fn encode<'a>(names: impl Iterator<Item = &'a str>, limits: &Limits) -> String {
    let names = names.take(limits.unknown_fields).map(|name| {
        let cut = name.char_indices().nth(limits.unknown_field_chars).map_or(name, |(end, _)| &name[..end]);
        utf8_percent_encode(cut, ESCAPED).to_string()
    });
    names.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use kitfleet_types::limits::Limits;

    fn encode<'a>(names: impl Iterator<Item = &'a str>) -> String {
        super::encode(names, &Limits::default())
    }

    #[test]
    fn unusual_names_are_escaped() {
        let names = ["plain_name-1.x[0]", "a,b", "größe", "a b", "50%", "tab\t", "\u{1f600}"];
        let expected = "plain_name-1.x[0],a%2Cb,gr%C3%B6%C3%9Fe,a%20b,50%25,tab%09,%F0%9F%98%80";
        assert_eq!(encode(names.into_iter()), expected);
    }

    #[test]
    fn name_is_cut_before_it_is_escaped() {
        assert_eq!(encode([format!("{}ß", "x".repeat(64)).as_str()].into_iter()), "x".repeat(64));
        assert_eq!(encode(["ß".repeat(70).as_str()].into_iter()), "%C3%9F".repeat(64));
    }

    #[test]
    fn at_most_ten_names_are_reported() {
        let names: Vec<_> = (0..12).map(|i| i.to_string()).collect();
        assert_eq!(encode(names.iter().map(String::as_str)), "0,1,2,3,4,5,6,7,8,9");
        let limits = Limits { unknown_fields: 2, unknown_field_chars: 3, ..Limits::default() };
        assert_eq!(super::encode(["abcd", "e", "f"].into_iter(), &limits), "abc,e");
    }
}
