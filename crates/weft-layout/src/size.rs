//! Sizes as people write them: `4096`, `64K`, `4MiB`, `1GB`.

use crate::OFFSET_MAX;

/// Reads a size. `K`, `M`, `G`, `T`, `P` and `E`, alone or with `iB`, count in 1024s; with `B` in 1000s, as in dd.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| format!("`{text}` is not a size: write a number like 4096, 64K or 4MiB"))?;
    let unit = unit(suffix.trim()).ok_or_else(|| {
        format!("`{suffix}` is no unit of size: use K, M, G, T, P or E (1024s; KB, MB … are 1000s)")
    })?;
    number
        .checked_mul(unit)
        .filter(|size| *size <= OFFSET_MAX)
        .ok_or_else(|| format!("`{text}` is too large: at most {OFFSET_MAX} bytes"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_count_in_1024s_and_in_1000s_with_a_plain_b() {
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
        ] {
            assert_eq!(parse(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_says_what_to_write() {
        for text in [
            "",
            "K",
            "-1",
            "1.5M",
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
    }
}
