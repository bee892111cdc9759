//! Console lines of pages, as the web-process extension reports them.
//!
//! The reports are untrusted. A report of another form, or with a longer text than the extension sends, is ignored.

use glib::Variant;
use kitfleet_host_protocol::{CONSOLE_CHARS, ConsoleLevel, ConsoleLine, ConsoleSource};

/// A character has at most 4 bytes.
const MAX_TEXT_BYTES: usize = 4 * CONSOLE_CHARS;

/// Level, source, text, address, line, and the number of lines that were dropped before it.
pub fn parse(report: &Variant) -> Option<(ConsoleLine, u32)> {
    // The size is checked before the texts are copied.
    if report.size() > 2 * MAX_TEXT_BYTES {
        return None;
    }
    let (level, source, text, address, line, dropped) = report.get::<(u32, u32, String, String, u32, u32)>()?;
    if text.chars().count() > CONSOLE_CHARS || address.chars().count() > CONSOLE_CHARS {
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
    fn report_is_a_line_and_the_number_of_dropped_lines() {
        let text = "ü".repeat(CONSOLE_CHARS);
        let (line, dropped) = parse(&report(3, &text, 10)).expect("a line");
        assert_eq!((line.level, line.source, line.line, dropped), (ConsoleLevel::Error, ConsoleSource::Console, 7, 10));
        assert_eq!((line.text, line.address.as_str()), (text, "https://example.com/"));
    }

    #[test]
    fn forged_reports_are_ignored() {
        for forged in [
            "text".to_variant(),
            report(5, "level", 0),
            report(0, &"x".repeat(CONSOLE_CHARS + 1), 0),
            report(0, &"x".repeat(1 << 20), 0),
            (0_u32, 9_u32, "source", "", 0_u32, 0_u32).to_variant(),
            (0_u32, 0_u32, "short").to_variant(),
        ] {
            assert_eq!(parse(&forged), None);
        }
    }
}
