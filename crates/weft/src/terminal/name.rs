//! Names and times as people read them. Names are bytes; those that could control a terminal are
//! escaped.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::Serializer;

use crate::limits::CALL_PATH_MAX;

pub(crate) use weft_proto::text::escape;

/// A name quoted for a shell. Unprintable characters are escaped for display, so such a name cannot
/// be pasted.
pub(crate) fn quote(name: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(b);
    if !name.is_empty() && name.iter().all(plain) {
        return escape(name);
    }
    format!("'{}'", escape(name).replace('\'', r"'\''"))
}

/// A name for standard output: escaped on a terminal, else its raw bytes.
pub(crate) fn for_output(name: &[u8]) -> Vec<u8> {
    if std::io::stdout().is_terminal() {
        escape(name).into_bytes()
    } else {
        name.to_vec()
    }
}

/// A path's bytes.
pub(crate) fn bytes(path: &OsStr) -> &[u8] {
    path.as_bytes()
}

/// A local path of these bytes.
pub(crate) fn os(path: &[u8]) -> OsString {
    OsString::from_vec(path.to_vec())
}

/// `directory/name`.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + name.len() + 1);
    path.extend_from_slice(directory);
    if !directory.is_empty() && !directory.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The last component of a path, without slashes behind it; empty for the root.
pub(crate) fn last(path: &[u8]) -> &[u8] {
    let end = path
        .iter()
        .rposition(|b| *b != b'/')
        .map_or(0, |last| last + 1);
    let start = path[..end]
        .iter()
        .rposition(|b| *b == b'/')
        .map_or(0, |slash| slash + 1);
    &path[start..end]
}

/// Splits a path that is too long for a call into the longest prefix that is not, and the rest
/// relative to that.
pub(crate) fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.len() < CALL_PATH_MAX {
        return None;
    }
    let end = path[..CALL_PATH_MAX].iter().rposition(|b| *b == b'/')?;
    let behind = path[end..].iter().position(|b| *b != b'/');
    let behind = behind.map_or(&[][..], |first| &path[end + first..]);
    (end > 0).then_some((&path[..end], behind))
}

/// A time in UTC, to the second or to the nanosecond.
pub(crate) fn time(nanos: i64, precise: bool) -> String {
    let (seconds, rest) = (
        nanos.div_euclid(1_000_000_000),
        nanos.rem_euclid(1_000_000_000),
    );
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    if precise {
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{rest:09}Z")
    } else {
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}Z")
    }
}

/// A time for programs, by RFC 3339: many of them read numbers as floating point, which cannot hold
/// a count of nanoseconds.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands a reference
pub(crate) fn as_rfc3339<S: Serializer>(nanos: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&rfc3339(*nanos))
}

fn rfc3339(nanos: i64) -> String {
    time(nanos, true).replacen(' ', "T", 1)
}

/// Year, month and day of a day since 1970 in the Gregorian calendar, in eras of 400 years that
/// start in March.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_for_a_shell_only_where_they_need_it() {
        assert_eq!(quote(b"/a/b-1.2"), "/a/b-1.2");
        assert_eq!(quote(b"two words"), "'two words'");
        assert_eq!(quote(b"it's"), r"'it'\''s'");
        assert_eq!(quote(b""), "''");
    }

    #[test]
    fn paths_join_and_split() {
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/a", b"b"), b"/a/b");
        assert_eq!(join(b"", b"b"), b"b");
        for (path, name) in [("/a/b//", "b"), ("a", "a"), ("/", ""), ("a/..", "..")] {
            assert_eq!(last(path.as_bytes()), name.as_bytes(), "{path}");
        }
    }

    #[test]
    fn a_long_path_is_split_at_slashes_without_loss() {
        let path = format!("/{}", "abc/".repeat(4000)).into_bytes();
        let (mut rest, mut parts) = (&path[..], Vec::new());
        while let Some((part, behind)) = split(rest) {
            assert!(part.len() < CALL_PATH_MAX && !behind.starts_with(b"/"));
            parts.extend_from_slice(part);
            parts.push(b'/');
            rest = behind;
        }
        assert!(rest.len() < CALL_PATH_MAX);
        parts.extend_from_slice(rest);
        assert_eq!(parts, path);
        // A component longer than the limit cannot be split.
        assert_eq!(split(&[b'a'; 5000]), None);
        assert_eq!(split(b"/short"), None);
    }

    #[test]
    fn times_are_utc_in_every_century() {
        assert_eq!(time(0, false), "1970-01-01 00:00Z");
        assert_eq!(
            time(951_827_696_123_456_789, true),
            "2000-02-29 12:34:56.123456789Z"
        );
        assert_eq!(time(-1, true), "1969-12-31 23:59:59.999999999Z");
        assert_eq!(
            rfc3339(951_827_696_123_456_789),
            "2000-02-29T12:34:56.123456789Z"
        );
        assert_eq!(time(4_107_542_399_000_000_000, false), "2100-02-28 23:59Z");
    }
}
