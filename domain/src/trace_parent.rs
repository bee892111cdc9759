//! Trace context that a row carries from one process to another.

use std::fmt;
use std::str::FromStr;

/// `traceparent` of version 00 (W3C Trace Context, section 3.2.2). Neither id is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    pub trace: u128,
    pub span: u64,
    pub sampled: bool,
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not a traceparent of version 00")]
pub struct NoTraceParent;

impl FromStr for TraceParent {
    type Err = NoTraceParent;

    fn from_str(text: &str) -> Result<Self, NoTraceParent> {
        let [version, trace, span, flags] = *text.split('-').collect::<Vec<_>>() else { return Err(NoTraceParent) };
        let trace = u128::from_str_radix(trace, 16).map_err(|_| NoTraceParent)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| NoTraceParent)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| NoTraceParent)?;
        let parent = Self { trace, span, sampled: flags & 1 == 1 };
        if version == "00" && trace != 0 && span != 0 { Ok(parent) } else { Err(NoTraceParent) }
    }
}

#[cfg(test)]
mod tests {
    use super::TraceParent;

    #[test]
    fn traceparent_is_written_as_it_was_read() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let parent: TraceParent = text.parse().expect("the example of the recommendation");
        assert_eq!((parent.sampled, parent.to_string()), (true, text.to_owned()));
        for none in ["", "00", "00-0-1-01", "01-1-1-01", "00-1-0-01", "00-x-1-01", "00-1-1-01-1"] {
            assert!(none.parse::<TraceParent>().is_err(), "{none}");
        }
    }
}
