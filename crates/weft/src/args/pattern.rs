//! Patterns on the command line: a chain of calls of the library's builder, in one word.
//!
//! ```text
//! 64                        64 bytes
//! 64/256x1000               64 bytes every 256, 1000 times
//! 64/256x1000/1Mx8          that every 1 MiB, 8 times
//! 64/-256x10                backwards
//! (64+100:32)/1Kx9          64 bytes and, from 100 on, 32 bytes; every KiB, 9 times
//! 0:64,4K:64,1M:512         a list
//! ```

use weft_layout::{Pattern, size};

use crate::limits::PATTERN_DEPTH_MAX;

/// Reads a pattern.
pub(crate) fn parse(text: &str) -> Result<Pattern, String> {
    let mut reader = Reader { rest: text };
    let pattern = if text.contains(',') {
        reader.list()?
    } else {
        reader.sequence(0)?
    };
    if !reader.rest.is_empty() {
        return Err(reader.unexpected());
    }
    pattern.length().map_err(|e| e.to_string())?;
    Ok(pattern)
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn unexpected(&self) -> String {
        let form = "LENGTH, LENGTH/STRIDExTIMES (repeatable, innermost first), (A+AT:B) for a sequence, or \
                    AT:LENGTH,AT:LENGTH for a list";
        if self.rest.is_empty() {
            return format!("the pattern ends too early: write {form}");
        }
        format!("`{}` is not understood: write {form}", self.rest)
    }

    fn take(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A size, perhaps negative.
    fn number(&mut self) -> Result<i64, String> {
        let negative = self.take('-');
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() && c != 'x'))
            .unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.unexpected());
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let value = i64::try_from(size::parse(word)?)
            .map_err(|_| format!("{word} is too large: at most {}", i64::MAX))?;
        Ok(if negative { -value } else { value })
    }

    fn length(&mut self) -> Result<u64, String> {
        let value = self.number()?;
        u64::try_from(value)
            .map_err(|_| format!("{value} is not a length: it must not be negative"))
    }

    /// `AT:LENGTH,…`
    fn list(&mut self) -> Result<Pattern, String> {
        let mut runs = Vec::new();
        loop {
            let at = self.number()?;
            if !self.take(':') {
                return Err(self.unexpected());
            }
            runs.push((at, self.length()?));
            if !self.take(',') {
                return Ok(Pattern::List(runs));
            }
        }
    }

    /// Members with `+` between them, each with its place and `:` before it.
    fn sequence(&mut self, depth: usize) -> Result<Pattern, String> {
        let mut members = vec![self.member(depth)?];
        while self.take('+') {
            members.push(self.member(depth)?);
        }
        Ok(match members.as_slice() {
            [(0, _)] => members.remove(0).1,
            _ => Pattern::Sequence(members),
        })
    }

    fn member(&mut self, depth: usize) -> Result<(i64, Pattern), String> {
        let before = self.rest;
        if !before.starts_with('(') {
            let at = self.number()?;
            if self.take(':') {
                return Ok((at, self.repeated(depth)?));
            }
            self.rest = before;
        }
        Ok((0, self.repeated(depth)?))
    }

    /// A length or a sequence in parentheses, and how it is repeated.
    fn repeated(&mut self, depth: usize) -> Result<Pattern, String> {
        if depth > PATTERN_DEPTH_MAX {
            return Err("the pattern is nested too deeply".to_owned());
        }
        let mut pattern = if self.take('(') {
            let inner = self.sequence(depth + 1)?;
            if !self.take(')') {
                return Err(self.unexpected());
            }
            inner
        } else {
            Pattern::Bytes(self.length()?)
        };
        while self.take('/') {
            let stride = self.number()?;
            if !self.take('x') {
                return Err(self.unexpected());
            }
            pattern = pattern.every(stride).times(self.length()?);
        }
        Ok(pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_pattern_is_understood() {
        let bytes = Pattern::bytes;
        for (text, pattern) in [
            ("64", bytes(64)),
            ("64/256x1000", bytes(64).every(256).times(1000)),
            (
                "64/256x10/1Mx8",
                bytes(64).every(256).times(10).every(1 << 20).times(8),
            ),
            ("8/-1Kx4", bytes(8).every(-1024).times(4)),
            (
                "(64+100:32)/1Kx9",
                bytes(64).then(100, bytes(32)).every(1024).times(9),
            ),
            (
                "(4/8x2+-20:1)",
                bytes(4).every(8).times(2).then(-20, bytes(1)),
            ),
            (
                "0:64,4K:64,1M:512",
                Pattern::list([(0, 64), (4096, 64), (1 << 20, 512)]),
            ),
            ("100:7", bytes(7).at(100)),
        ] {
            assert_eq!(parse(text), Ok(pattern), "{text}");
        }
    }

    #[test]
    fn malformed_patterns_explain_why() {
        for (text, word) in [
            ("", "too early"),
            ("64/", "too early"),
            ("64/256", "too early"),
            ("64/256x", "too early"),
            ("-5", "not a length"),
            ("(64", "too early"),
            ("64)", "not understood"),
            ("1,2", "not understood"),
            ("5Q", "no unit"),
            ("1/1x9223372036854775807/1x9", "more than"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        let deep = "(".repeat(100) + "1" + &")".repeat(100);
        assert!(parse(&deep).unwrap_err().contains("nested"));
    }
}
