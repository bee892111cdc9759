//! Console lines of pages, as the web-process extension reports them. The newest lines are kept until the worker takes them.
//!
//! The reports are untrusted. A report of another form, or with a longer text than the extension sends, is ignored.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use glib::Variant;
use kitfleet_host_protocol::{ConsoleLevel, ConsoleLine, ConsoleLines, ConsoleSource};

const MOST_LINES: usize = 500;

/// In bytes, of the kept texts.
const MOST_BYTES: usize = 128 * 1024;

/// In bytes.
const MOST_TEXT_BYTES: usize = 1_024;

#[derive(Default)]
pub struct Console {
    lines: RefCell<VecDeque<ConsoleLine>>,
    bytes: Cell<usize>,
    dropped: Cell<u64>,
}

impl Console {
    /// Drops the oldest lines beyond the limits.
    pub fn note(&self, report: Option<&Variant>) {
        let Some((line, dropped)) = report.and_then(parse) else { return };
        let mut lines = self.lines.borrow_mut();
        let mut bytes = self.bytes.get() + size(&line);
        let mut all_dropped = self.dropped.get().saturating_add(u64::from(dropped));
        lines.push_back(line);
        while lines.len() > MOST_LINES || bytes > MOST_BYTES {
            let Some(oldest) = lines.pop_front() else { break };
            bytes -= size(&oldest);
            all_dropped = all_dropped.saturating_add(1);
        }
        self.bytes.set(bytes);
        self.dropped.set(all_dropped);
    }

    /// Returns the kept lines and removes them.
    pub fn take(&self) -> ConsoleLines {
        self.bytes.set(0);
        ConsoleLines { lines: self.lines.take().into(), dropped: self.dropped.take() }
    }
}

fn size(line: &ConsoleLine) -> usize {
    line.text.len() + line.address.len()
}

/// Level, source, text, address, line, and the number of lines that were dropped before it.
fn parse(report: &Variant) -> Option<(ConsoleLine, u32)> {
    // The size is checked before the texts are copied.
    if report.size() > 4 * MOST_TEXT_BYTES {
        return None;
    }
    let (level, source, text, address, line, dropped) = report.get::<(u32, u32, String, String, u32, u32)>()?;
    if text.len() > MOST_TEXT_BYTES || address.len() > MOST_TEXT_BYTES {
        return None;
    }
    let level = match level {
        0 => ConsoleLevel::Info,
        1 => ConsoleLevel::Log,
        2 => ConsoleLevel::Warning,
        3 => ConsoleLevel::Error,
        4 => ConsoleLevel::Debug,
        _ => return None,
    };
    let source = match source {
        0 => ConsoleSource::Script,
        1 => ConsoleSource::Network,
        2 => ConsoleSource::Console,
        3 => ConsoleSource::Security,
        4 => ConsoleSource::Other,
        _ => return None,
    };
    Some((ConsoleLine { level, source, text, address, line }, dropped))
}

#[cfg(test)]
mod tests {
    use glib::prelude::*;

    use super::*;

    fn report(level: u32, text: &str, dropped: u32) -> Variant {
        (level, 2_u32, text, "https://example.com/", 7_u32, dropped).to_variant()
    }

    #[test]
    fn oldest_lines_are_dropped_and_counted() {
        let console = Console::default();
        for number in 0..MOST_LINES + 3 {
            console.note(Some(&report(3, &number.to_string(), 0)));
        }
        console.note(Some(&report(1, "last", 10)));
        let taken = console.take();
        assert_eq!((taken.lines.len(), taken.dropped), (MOST_LINES, 14));
        let last = taken.lines.last().expect("a line");
        assert_eq!((last.text.as_str(), last.level), ("last", ConsoleLevel::Log));
        assert_eq!((console.take().lines.len(), console.take().dropped), (0, 0));

        for _ in 0..MOST_LINES {
            console.note(Some(&report(0, &"x".repeat(MOST_TEXT_BYTES), 0)));
        }
        let bytes: usize = console.take().lines.iter().map(size).sum();
        assert!(bytes <= MOST_BYTES, "{bytes}");
    }

    #[test]
    fn forged_reports_are_ignored() {
        let console = Console::default();
        console.note(None);
        for forged in [
            "text".to_variant(),
            report(5, "level", 0),
            report(0, &"x".repeat(MOST_TEXT_BYTES + 1), 0),
            report(0, &"x".repeat(1 << 20), 0),
            (0_u32, 9_u32, "source", "", 0_u32, 0_u32).to_variant(),
            (0_u32, 0_u32, "short").to_variant(),
        ] {
            console.note(Some(&forged));
        }
        assert!(console.take().lines.is_empty());
    }
}
