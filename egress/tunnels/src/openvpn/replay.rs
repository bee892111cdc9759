//! Each packet number is accepted once, and numbers older than the window are rejected.

/// Below the highest number.
const WIDTH: u32 = u128::BITS;

/// Numbers begin at 1. Only for authentic packets: others would move the window.
#[derive(Debug, Default)]
pub(super) struct Window {
    highest: u32,
    /// Bit 0 is the highest number.
    seen: u128,
}

impl Window {
    pub(super) fn take(&mut self, number: u32) -> bool {
        if number == 0 {
            return false;
        }
        if number > self.highest {
            self.seen = self.seen.checked_shl(number - self.highest).unwrap_or(0) | 1;
            self.highest = number;
            return true;
        }
        let behind = self.highest - number;
        if behind >= WIDTH || self.seen >> behind & 1 == 1 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::{WIDTH, Window};

    #[test]
    fn number_is_accepted_once_within_the_window() {
        let mut window = Window::default();
        assert!(!window.take(0));
        for (number, is_taken) in [
            (5, true),
            (5, false),
            (3, true),
            (3, false),
            (4, true),
            (WIDTH + 5, true),
            (5, false),
            (6, true),
            (u32::MAX, true),
            (WIDTH, false),
        ] {
            assert_eq!(window.take(number), is_taken, "{number}");
        }
    }

    proptest! {
        #[test]
        fn no_number_is_accepted_twice(numbers in prop::collection::vec(1_u32..400, 0..600)) {
            let (mut window, mut taken, mut highest) = (Window::default(), HashSet::new(), 0);
            for number in numbers {
                highest = highest.max(number);
                let is_taken = window.take(number);
                prop_assert!(!(is_taken && taken.contains(&number)));
                prop_assert!(is_taken || taken.contains(&number) || highest - number >= WIDTH);
                if is_taken { taken.insert(number); }
            }
        }
    }
}
