//! Texts of pages.

/// At most `max` characters. Returns whether the text was truncated.
pub fn cut(mut text: String, max: usize) -> (String, bool) {
    match text.char_indices().nth(max) {
        Some((end, _)) => {
            text.truncate(end);
            text.shrink_to_fit();
            (text, true)
        }
        None => (text, false),
    }
}
