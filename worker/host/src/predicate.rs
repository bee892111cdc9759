//! Scripts of the caller that are run until they return something truthy.
//!
//! They run in the page's own world, whose functions the page can replace. The code around the script therefore calls none of them:
//! it only uses operators.

use std::rc::Rc;

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use kitfleet_host_protocol::{HostError, PredicateException, PredicateResult};

use crate::pages::{Page, cut};
use crate::script;

/// Maximum lengths of an exception's name and message, in characters.
const MOST_NAME_CHARS: usize = 100;
const MOST_MESSAGE_CHARS: usize = 1_000;

/// Code before and after the script. It returns `+` for a truthy value and `-` for another one. An exception is `!`, its name, a
/// line break and its message. A half of a surrogate pair has no form in UTF-8.
const BEFORE: &str = "try {\nreturn (await (async (args) => {\n";
const AFTER: &str = r"
})([])) ? '+' : '-';
} catch (error) {
  let name = 'Error';
  let message = '';
  try {
    if ((typeof error === 'object' && error !== null) || typeof error === 'function') {
      name = `${error.name ?? name}`;
      message = `${error.message ?? ''}`;
    } else {
      message = `${error}`;
    }
  } catch {}
  const shown = (text, most) => {
    let result = '';
    for (let at = 0; at < text.length && at < most; at++) {
      const unit = text[at];
      const next = at + 1 < text.length ? text[at + 1] : '';
      if (unit >= '\ud800' && unit <= '\udbff' && next >= '\udc00' && next <= '\udfff') {
        result += unit + next;
        at++;
      } else {
        result += unit >= '\ud800' && unit <= '\udfff' ? '\ufffd' : unit;
      }
    }
    return result;
  };
  return '!' + shown(name, 1000) + '\n' + shown(message, 2000);
}";

/// Runs the script once. It replaces an earlier run of the page that has not ended.
pub async fn run(page: &Rc<Page>, body: &str) -> Result<PredicateResult, HostError> {
    let (running, replaced) = oneshot::channel::<()>();
    page.scripts.predicate.replace(Some(running));
    let wrapped = format!("{BEFORE}{body}{AFTER}");
    let answer = match select(Box::pin(script::call(page, &wrapped, None)), replaced).await {
        Either::Left((answer, _)) => answer?,
        Either::Right(_) => return Err(HostError::Script { message: "another script runs".to_owned() }),
    };
    Ok(PredicateResult { holds: answer == "+", exception: exception(&answer) })
}

fn exception(answer: &str) -> Option<PredicateException> {
    let (name, message) = answer.strip_prefix('!')?.split_once('\n')?;
    let (name, message) = (cut(name.to_owned(), MOST_NAME_CHARS).0, cut(message.to_owned(), MOST_MESSAGE_CHARS).0);
    Some(PredicateException { name, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_bounded() {
        let parsed = exception("!TypeError\nline 1\nline 2").expect("an exception");
        assert_eq!((parsed.name.as_str(), parsed.message.as_str()), ("TypeError", "line 1\nline 2"));
        let long = exception(&format!("!{}\n{}", "é".repeat(500), "é".repeat(2_000))).expect("an exception");
        assert_eq!((long.name.chars().count(), long.message.chars().count()), (MOST_NAME_CHARS, MOST_MESSAGE_CHARS));
        assert!(exception("-").is_none());
    }
}
