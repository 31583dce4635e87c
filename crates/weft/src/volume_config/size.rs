//! Sizes as people write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A count of bytes, written as `4096`, `64 KiB`, `1G` or `1.5 GiB` (K, M, G, T are powers of 1,024).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let wrong =
            || format!("{text:?} is not a size: write a number of bytes, or 64K, 1.5M, 2 GiB, 1T");
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kib" => 10,
            "m" | "mib" => 20,
            "g" | "gib" => 30,
            "t" | "tib" => 40,
            "p" | "pib" => 50,
            _ => return Err(wrong()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(1 << shift).map(Size).ok_or_else(wrong);
        }
        let value: f64 = number.parse().map_err(|_| wrong())?;
        let bytes = value * (1u64 << shift) as f64;
        if bytes.is_finite() && (0.0..9.2e18).contains(&bytes) && bytes.fract() == 0.0 {
            #[allow(clippy::cast_sign_loss)] // just checked
            return Ok(Size(bytes as u64));
        }
        Err(wrong())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 > 0 && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Bytes(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Bytes(bytes) => Ok(Size(bytes)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64K", 65536),
            ("64 KiB", 65536),
            ("1.5M", 3 << 19),
            ("2GiB", 2 << 30),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "x", "-1", "1.0001K", "99999999999P", "1 K B"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_printed_size_is_read_back() {
        for bytes in [0, 1, 4096, 4097, 1 << 30, 3 << 39] {
            assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }
    }
}
