//! Sizes as people write them: `4096`, `64K`, `4MiB`, `1.5 GiB`, `1GB`; and counts as they read
//! them.

use crate::OFFSET_MAX;

/// Digits behind a point: more say nothing about bytes.
const FRACTION_MAX: usize = 18;

/// Reads a size. `K`, `M`, `G`, `T`, `P` and `E`, alone or with `iB`, count in 1024s; with `B` in
/// 1000s, as in dd. A fraction must come out as whole bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let (number, suffix) = text.split_at(text.find(|c| !digits(c)).unwrap_or(text.len()));
    let (number, scale) = decimal(number).ok_or_else(|| {
        format!("`{text}` is not a size: write a number like 4096, 64K, 1.5M or 4MiB")
    })?;
    let unit = unit(suffix.trim()).ok_or_else(|| {
        format!("`{suffix}` is no unit of size: use K, M, G, T, P or E (1024s; KB, MB … are 1000s)")
    })?;
    let too_large = || format!("`{text}` is too large: at most {OFFSET_MAX} bytes");
    let scaled = number.checked_mul(u128::from(unit)).ok_or_else(too_large)?;
    if scaled % scale != 0 {
        return Err(format!("`{text}` is not a whole number of bytes"));
    }
    let size = u64::try_from(scaled / scale).ok();
    size.filter(|size| *size <= OFFSET_MAX)
        .ok_or_else(too_large)
}

/// A decimal number as a numerator and a power of ten.
fn decimal(text: &str) -> Option<(u128, u128)> {
    let (whole, fraction) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (text, ""),
    };
    if fraction.len() > FRACTION_MAX {
        return None;
    }
    let scale = 10_u128.pow(fraction.len() as u32);
    let whole = whole.parse::<u128>().ok()?.checked_mul(scale)?;
    let fraction = match fraction {
        "" => 0,
        digits => digits.parse::<u128>().ok()?,
    };
    Some((whole.checked_add(fraction)?, scale))
}

fn unit(suffix: &str) -> Option<u64> {
    let lower = suffix.to_ascii_lowercase();
    if lower.is_empty() || lower == "b" {
        return Some(1);
    }
    let mut letters = lower.chars();
    let power = "kmgtpe".find(letters.next()?)? as u32 + 1;
    match letters.as_str() {
        "" | "ib" => Some(1 << (10 * power)),
        "b" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

/// As [`parse`], for a size that is kept in 32 bits.
pub fn parse_u32(text: &str) -> Result<u32, String> {
    u32::try_from(parse(text)?).map_err(|_| format!("`{text}` is too large: at most 4 GiB − 1"))
}

/// As [`parse`], for a size of which nothing is too little: a rate, a limit, a step.
pub fn parse_positive(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err("0 is too little".to_owned()),
        size => Ok(size),
    }
}

/// A number of things: `1 server`, `2 servers`.
pub fn count(n: impl TryInto<u64>, what: &str) -> String {
    match n.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {what}"),
        n => match what.strip_suffix('y') {
            Some(stem) => format!("{n} {stem}ies"),
            None => format!("{n} {what}s"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_powers_of_1024_and_of_1000_with_a_plain_b() {
        for (text, size) in [
            ("0", 0),
            ("4096", 4096),
            ("17B", 17),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("4MiB", 4 << 20),
            ("4 GiB", 4 << 30),
            ("1GB", 1_000_000_000),
            ("2T", 2 << 40),
            ("7E", 7 << 60),
            ("1.5M", 3 << 19),
            ("0.25 K", 256),
            ("2.50GB", 2_500_000_000),
        ] {
            assert_eq!(parse(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn an_invalid_size_is_refused_with_a_reason() {
        for text in [
            "",
            "K",
            "-1",
            "1.0001K",
            "1.",
            ".5K",
            "1.2.3K",
            "0.0000000000000000000001E",
            "1 K B",
            "1Q",
            "1KiBB",
            "9E",
            "99999999999999999999",
            "1é",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("8E").unwrap_err().contains("too large"));
        assert!(parse_u32("4G").unwrap_err().contains("too large"));
        assert!(
            parse_positive("0K")
                .unwrap_err()
                .contains("0 is too little")
        );
        assert_eq!(parse_positive("1"), Ok(1));
    }

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!(count(1_u32, "server"), "1 server");
        assert_eq!(count(0_u64, "server"), "0 servers");
        assert_eq!(count(2_usize, "directory"), "2 directories");
    }
}
