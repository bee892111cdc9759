//! Regular expressions of customers, which an address has to match.
//!
//! They are of Rust's kind: looking at an address takes time that is linear in its length, times the size of the expression.
//! Both are bounded, and yet the product can be seconds, which nothing can interrupt. So an expression is worked on by a
//! thread of its own, which yields to everything else. Whoever waits for it may give up at any time; what it works for
//! then has to wait until it is done, so that nobody keeps more threads busy than they have turns.

use std::io;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use tokio::sync::Semaphore;

use crate::blocking::run_idle;
use crate::validation::Invalid;

/// Bytes of a compiled expression, and of the tables that it fills while it looks at an address.
const MOST_BYTES: usize = 1024 * 1024;

/// A regular expression in the syntax of the `regex` crate, of at most 1 MiB when it is compiled.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

/// Why there is no pattern, or no answer of one.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// The expression is none, or is too large.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The machine has no thread for it.
    #[error("cannot evaluate the regular expression: {0}")]
    Thread(#[from] io::Error),
}

/// Where expressions are compiled and matched.
#[derive(Debug, Clone)]
pub struct Patterns {
    turns: Arc<Semaphore>,
}

impl Patterns {
    /// A place where so many are worked on at once.
    #[must_use]
    pub fn new(turns: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(turns)) }
    }

    /// # Errors
    /// On field `condition.pattern`, when it is no regular expression or too large a one.
    pub async fn compile(&self, text: &str) -> Result<Pattern, PatternError> {
        let text = text.to_owned();
        let compiled = self.apart(move || {
            RegexBuilder::new(&text).size_limit(MOST_BYTES).dfa_size_limit(MOST_BYTES).build().map(Pattern)
        });
        Ok(compiled.await?.map_err(|error| {
            let message = match error {
                regex::Error::CompiledTooBig(_) => "is a regular expression that is too large".to_owned(),
                error => format!("must be a regular expression: {error}"),
            };
            Invalid::field("condition.pattern", message)
        })?)
    }

    /// Whether a pattern is found anywhere in an address. A future that is dropped leaves its turn to the thread, until
    /// that is done.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub async fn is_match(&self, pattern: &Pattern, address: &str) -> Result<bool, PatternError> {
        let (Pattern(regex), address) = (pattern.clone(), address.to_owned());
        Ok(self.apart(move || regex.is_match(&address)).await?)
    }

    async fn apart<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(io::Error::other)?;
        run_idle("pattern", move || {
            let result = work();
            drop(turn);
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
    async fn an_expression_is_one_and_of_bounded_size() {
        let patterns = Patterns::new(1);
        for bad in ["(", "(?=a)", r"(a)\1", "(((a{1000}){1000}){1000})", r"\p{L}{900}"] {
            let error = patterns.compile(bad).await.expect_err("it is none");
            assert!(matches!(error, PatternError::Invalid(_)), "{bad}: {error}");
        }
        let pattern = patterns.compile(r"^https?://[^/]+/(\w+-)*\d{1,6}$").await.expect("it is one");
        assert!(patterns.is_match(&pattern, "https://example.com/a-b-12").await.expect("a thread"));
        assert!(!patterns.is_match(&pattern, "https://example.com/a-b-").await.expect("a thread"));
    }

    #[tokio::test]
    async fn whoever_gives_up_makes_no_room_for_another() {
        let patterns = Patterns::new(1);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let long = patterns.apart(move || released.recv());
        assert!(timeout(Duration::from_millis(10), long).await.is_err());
        assert_eq!(patterns.turns.available_permits(), 0);
        release.send(()).expect("it still works");
        assert_eq!(patterns.apart(|| 7).await.expect("a thread"), 7);
    }
}
