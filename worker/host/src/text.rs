//! Texts of pages.

/// At most `most` characters. Returns whether the text was truncated.
pub fn cut(mut text: String, most: usize) -> (String, bool) {
    match text.char_indices().nth(most) {
        Some((end, _)) => {
            text.truncate(end);
            text.shrink_to_fit();
            (text, true)
        }
        None => (text, false),
    }
}
