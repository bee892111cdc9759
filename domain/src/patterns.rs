//! Regular expressions of customers that a URL must match.
//!
//! A match takes time proportional to the length of the URL times the size of the expression. Both are limited, but the
//! product can still be seconds, and a match cannot be interrupted: it runs on a separate thread with idle priority.
//! The caller can be cancelled at any time; its permit is returned only when the thread ends, so that the number of
//! busy threads stays limited.

use std::io;
use std::sync::Arc;

use kitfleet_types::validation::Invalid;
use regex::{Regex, RegexBuilder};
use tokio::sync::Semaphore;

use crate::blocking::run_idle;

/// Compiled, and for the tables during a match.
const MAX_BYTES: usize = 1024 * 1024;

/// Syntax of the `regex` crate, at most 1 MiB after compilation.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("cannot evaluate the regular expression: {0}")]
    Thread(#[from] io::Error),
}

#[derive(Debug, Clone)]
pub struct Patterns {
    permits: Arc<Semaphore>,
}

impl Patterns {
    #[must_use]
    pub fn new(max_threads: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(max_threads)) }
    }

    pub async fn compile(&self, text: &str, field: &str) -> Result<Pattern, PatternError> {
        let text = text.to_owned();
        let compiled = self.run_on_thread(move || {
            RegexBuilder::new(&text).size_limit(MAX_BYTES).dfa_size_limit(MAX_BYTES).build().map(Pattern)
        });
        Ok(compiled.await?.map_err(|error| {
            let message = match error {
                regex::Error::CompiledTooBig(_) => "is a regular expression that is too large".to_owned(),
                error => format!("must be a regular expression: {error}"),
            };
            Invalid::field(field, message)
        })?)
    }

    /// The pattern may match anywhere in the URL. When the future is dropped, the thread keeps its permit until it
    /// ends.
    pub async fn is_match(&self, pattern: &Pattern, address: &str) -> Result<bool, PatternError> {
        let (Pattern(regex), address) = (pattern.clone(), address.to_owned());
        Ok(self.run_on_thread(move || regex.is_match(&address)).await?)
    }

    /// As [`Patterns::is_match`], on one thread for all URLs.
    pub async fn first_match(&self, pattern: &Pattern, addresses: Vec<String>) -> Result<Option<usize>, PatternError> {
        let Pattern(regex) = pattern.clone();
        Ok(self.run_on_thread(move || addresses.iter().position(|address| regex.is_match(address))).await?)
    }

    async fn run_on_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(io::Error::other)?;
        run_idle("pattern", move || {
            let result = work();
            drop(permit);
            result
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn invalid_and_large_expressions_are_refused() {
        let patterns = Patterns::new(1);
        for bad in ["(", "(?=a)", r"(a)\1", "(((a{1000}){1000}){1000})", r"\p{L}{900}"] {
            let error = patterns.compile(bad, "condition.pattern").await.expect_err("the expression is refused");
            assert!(matches!(error, PatternError::Invalid(_)), "{bad}: {error}");
        }
        let pattern = patterns.compile(r"^https?://[^/]+/(\w+-)*\d{1,6}$", "condition.pattern").await;
        let pattern = pattern.expect("the expression is valid");
        assert!(patterns.is_match(&pattern, "https://example.com/a-b-12").await.expect("a thread"));
        assert!(!patterns.is_match(&pattern, "https://example.com/a-b-").await.expect("a thread"));
        let addresses = ["https://example.com/", "https://example.com/1", "https://example.com/2"].map(str::to_owned);
        assert_eq!(patterns.first_match(&pattern, addresses.to_vec()).await.expect("a thread"), Some(1));
        assert_eq!(patterns.first_match(&pattern, Vec::new()).await.expect("a thread"), None);
    }

    #[tokio::test]
    async fn cancelled_caller_keeps_its_permit_until_the_thread_ends() {
        let patterns = Patterns::new(1);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let long = patterns.run_on_thread(move || released.recv());
        assert!(timeout(Duration::from_millis(10), long).await.is_err());
        assert_eq!(patterns.permits.available_permits(), 0);
        release.send(()).expect("it still works");
        assert_eq!(patterns.run_on_thread(|| 7).await.expect("a thread"), 7);
    }
}
