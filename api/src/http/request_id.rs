//! ID of a request, in every log line and response.

use axum::http::HeaderMap;
use uuid::Uuid;

/// Of requests and responses.
pub const HEADER: &str = "x-request-id";

/// The caller's own ID only if it is fit for a log line.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

impl RequestId {
    pub fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(HEADER).and_then(|value| value.to_str().ok()).filter(|id| is_fit(id));
        Self(given.map_or_else(|| Uuid::now_v7().to_string(), str::to_owned))
    }
}

fn is_fit(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::is_fit;

    #[test]
    fn only_short_plain_request_ids_are_accepted() {
        assert!(is_fit("a") && is_fit("Ab0._-") && is_fit(&"x".repeat(128)));
        for unfit in ["", "a b", "ü", "a\n", "{}", &"x".repeat(129)] {
            assert!(!is_fit(unfit), "{unfit:?}");
        }
    }
}
