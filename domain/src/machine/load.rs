//! Load of the machine's processors.

use std::fs;
use std::thread::available_parallelism;

/// Processes that ran or waited for a processor during the last minute, for each processor that this process may use.
/// `None` when the kernel does not provide the value.
#[must_use]
pub fn processor_load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let processors = u32::try_from(available_parallelism().ok()?.get()).ok()?;
    Some(of_last_minute(&text)? / f64::from(processors))
}

fn of_last_minute(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_number_is_the_last_minute() {
        assert_eq!(of_last_minute("0.52 0.58 0.59 1/123 4567\n"), Some(0.52));
        assert_eq!(of_last_minute(""), None);
    }
}
