//! Many texts of which some stand at a place of another text.
//!
//! They are sorted, so that a binary search finds them: a place takes about a tenth of a microsecond. An automaton (Aho-Corasick) would need less for
//! each place, but the time that the crate of that name takes to build one grows with the square of the number of texts: ten seconds for
//! 50,000 words.

use std::iter::successors;

/// Texts, each once.
#[derive(Debug)]
pub struct Dictionary {
    /// Sorted.
    texts: Vec<Box<str>>,
    /// The longest other text that each begins with.
    prefixes: Vec<Option<usize>>,
    /// Where the texts begin that begin with each byte, or a greater one.
    firsts: Vec<usize>,
}

impl Dictionary {
    /// Of these texts. Empty ones do not count.
    #[must_use]
    pub fn new(mut texts: Vec<Box<str>>) -> Self {
        texts.retain(|text| !text.is_empty());
        texts.sort_unstable();
        texts.dedup();
        let mut prefixes = Vec::with_capacity(texts.len());
        // Those that the text before begins with, and that text.
        let mut open: Vec<usize> = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            while open.pop_if(|before| !text.starts_with(&*texts[*before])).is_some() {}
            prefixes.push(open.last().copied());
            open.push(at);
        }
        let firsts = (0..=256).map(|first| texts.partition_point(|text| usize::from(text.as_bytes()[0]) < first));
        Self { firsts: firsts.collect(), prefixes, texts }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.texts.len()
    }

    /// The text of a number.
    #[must_use]
    pub fn text(&self, number: usize) -> &str {
        &self.texts[number]
    }

    /// The numbers of those that this one begins with, the longest first.
    pub fn at_the_beginning_of(&self, text: &[u8]) -> impl Iterator<Item = usize> {
        // Whatever this text begins with, the last that is not behind it begins with, too.
        let last = self.place_of(text).last_before;
        let common = last.map_or(0, |last| in_common(self.texts[last].as_bytes(), text));
        successors(last, |number| self.prefixes[*number]).filter(move |number| self.texts[*number].len() <= common)
    }

    /// How many bytes this text has at most in common with the beginning of one of them.
    #[must_use]
    pub fn most_in_common(&self, text: &[u8]) -> usize {
        let BytePosition { last_before, first_behind } = self.place_of(text);
        let neighbours = last_before.into_iter().chain(first_behind);
        neighbours.map(|number| in_common(self.texts[number].as_bytes(), text)).max().unwrap_or_default()
    }

    fn place_of(&self, text: &[u8]) -> BytePosition {
        let Some(first) = text.first().map(|first| usize::from(*first)) else {
            return BytePosition { last_before: None, first_behind: None };
        };
        let (from, to) = (self.firsts[first], self.firsts[first + 1]);
        let behind = from + self.texts[from..to].partition_point(|other| other.as_bytes() <= text);
        BytePosition {
            last_before: behind.checked_sub(1).filter(|last| *last >= from),
            first_behind: Some(behind).filter(|behind| *behind < to),
        }
    }
}

/// Where a text would stand among those that begin with the same byte.
struct BytePosition {
    last_before: Option<usize>,
    first_behind: Option<usize>,
}

/// How many bytes two texts begin with alike.
fn in_common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_stands_at_a_place_is_found(texts in proptest::collection::vec("[abä]{0,6}", 0..20), text in "[abä]{0,12}") {
            let dictionary = Dictionary::new(texts.iter().map(|text| text.clone().into_boxed_str()).collect());
            let found: Vec<_> = dictionary.at_the_beginning_of(text.as_bytes()).map(|number| dictionary.text(number)).collect();
            let mut expected: Vec<_> = texts.iter().map(String::as_str).filter(|one| !one.is_empty() && text.starts_with(one)).collect();
            expected.sort_unstable_by_key(|one| std::cmp::Reverse(one.len()));
            expected.dedup();
            prop_assert_eq!(found, expected);
            let most = texts.iter().map(|one| in_common(one.as_bytes(), text.as_bytes())).max().unwrap_or_default();
            prop_assert_eq!(dictionary.most_in_common(text.as_bytes()), most);
        }
    }
}
