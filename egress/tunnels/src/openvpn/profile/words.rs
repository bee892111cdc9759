//! Splits a line as OpenVPN does: single and double quotes, backslashes, comments.

use std::iter::Peekable;
use std::str::Chars;

/// An unterminated quote or a trailing backslash; OpenVPN reports it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SyntaxError;

/// A comment can begin only at the start of a word.
pub(super) fn words(line: &str) -> Result<Vec<String>, SyntaxError> {
    let mut characters = line.chars().peekable();
    let mut words = Vec::new();
    loop {
        while characters.next_if(|character| character.is_whitespace()).is_some() {}
        match characters.peek() {
            None | Some('#' | ';') => return Ok(words),
            Some('\'') => words.push(literal(&mut characters)?),
            Some('"') => words.push(quoted(&mut characters)?),
            Some(_) => words.push(plain(&mut characters)?),
        }
    }
}

/// Inside single quotes, only the closing quote is special.
fn literal(characters: &mut Peekable<Chars<'_>>) -> Result<String, SyntaxError> {
    characters.next();
    let mut word = String::new();
    loop {
        match characters.next().ok_or(SyntaxError)? {
            '\'' => return Ok(word),
            character => word.push(character),
        }
    }
}

fn quoted(characters: &mut Peekable<Chars<'_>>) -> Result<String, SyntaxError> {
    characters.next();
    let mut word = String::new();
    loop {
        match characters.next().ok_or(SyntaxError)? {
            '"' => return Ok(word),
            '\\' => word.push(characters.next().ok_or(SyntaxError)?),
            character => word.push(character),
        }
    }
}

fn plain(characters: &mut Peekable<Chars<'_>>) -> Result<String, SyntaxError> {
    let mut word = String::new();
    while let Some(character) = characters.next_if(|character| !character.is_whitespace()) {
        word.push(if character == '\\' { characters.next().ok_or(SyntaxError)? } else { character });
    }
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::{SyntaxError, words};

    #[test]
    fn words_are_split_as_in_openvpn() {
        for (line, expected) in [
            ("remote  vpn.example\t1194 ; there", &["remote", "vpn.example", "1194"][..]),
            ("verify-x509-name 'C=DE, CN=a b' subject", &["verify-x509-name", "C=DE, CN=a b", "subject"]),
            (r#"pull-filter ignore "dhcp-option \"DNS\"""#, &["pull-filter", "ignore", "dhcp-option \"DNS\""]),
            (r"u\p /bin/sh", &["up", "/bin/sh"]),
            ("setenv a b#c", &["setenv", "a", "b#c"]),
            ("'' \"\"", &["", ""]),
            ("   # all of it", &[]),
        ] {
            assert_eq!(words(line).expect(line), expected, "{line}");
        }
        for line in ["setenv 'a", "setenv \"a", "setenv a\\", "setenv \"a\\"] {
            assert_eq!(words(line), Err(SyntaxError), "{line}");
        }
    }
}
