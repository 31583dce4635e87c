//! Text for people. Names are arbitrary bytes, and a peer's messages are whatever the peer sends,
//! so characters that could control a terminal or a log are escaped.

use std::fmt::Write;

/// A name that is safe to show and distinct from every other name: bytes that are not printable
/// text are escaped, backslashes doubled.
pub fn escape(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c => push(&mut out, c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// A text that may contain names, on one line. Backslashes stay: the names may be escaped already.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push(&mut out, c);
    }
    out
}

/// As [`one_line`], for a text of several lines.
pub fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c => push(&mut out, c),
        }
    }
    out
}

fn push(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        c if is_command(c) => {
            let _ = write!(out, "{}", c.escape_unicode());
        }
        c => out.push(c),
    }
}

/// Whether a character may command a terminal: control characters, and characters that change the
/// writing direction or end a line.
pub fn is_command(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_invalid_utf8_are_escaped() {
        assert_eq!(escape("plain äöü 線.txt".as_bytes()), "plain äöü 線.txt");
        assert_eq!(escape(b"a\nb\\c\x1b[2J"), "a\\nb\\\\c\\u{1b}[2J");
        assert_eq!(escape(b"\xff\xfe."), "\\xff\\xfe.");
        assert_eq!(escape("\u{202e}gpj".as_bytes()), "\\u{202e}gpj");
        assert_eq!(escape("\u{9b}2J".as_bytes()), "\\u{9b}2J");
    }

    #[test]
    fn escaped_names_in_a_text_are_not_escaped_again() {
        let name = escape(b"a\n\\\x1b");
        assert_eq!(one_line(&name), name);
        assert_eq!(lines(&name), name);
        assert_eq!(one_line("a\n\x1b[2J"), "a\\n\\u{1b}[2J");
        assert_eq!(lines("a\n\t\x1b[2J"), "a\n\t\\u{1b}[2J");
    }
}
