//! How long a replica may be away, as people write it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time such as `15m` or `1h 30m`, or `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RebuildAfter(pub(crate) Option<Duration>);

impl RebuildAfter {
    pub(super) fn is_default(&self) -> bool {
        *self == RebuildAfter::default()
    }
}

impl Default for RebuildAfter {
    fn default() -> RebuildAfter {
        RebuildAfter(Some(Duration::from_mins(15)))
    }
}

impl fmt::Display for RebuildAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => humantime::format_duration(time).fmt(f),
            None => f.write_str("never"),
        }
    }
}

impl Serialize for RebuildAfter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RebuildAfter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RebuildAfter, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "never" {
            return Ok(RebuildAfter(None));
        }
        let time = humantime::parse_duration(&text).map_err(|e| {
            let what = format!("{text:?} is no time ({e}): write it as \"15m\", or \"never\"");
            serde::de::Error::custom(what)
        })?;
        Ok(RebuildAfter(Some(time)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct File {
        after: RebuildAfter,
    }

    #[test]
    fn a_printed_time_is_read_back_and_nonsense_is_refused() {
        for time in [Some(2), Some(900), Some(5400), None] {
            let after = RebuildAfter(time.map(Duration::from_secs));
            let text = toml::to_string(&File { after }).unwrap();
            assert_eq!(toml::from_str::<File>(&text).unwrap().after, after);
        }
        assert!(RebuildAfter::default().is_default());
        let refused = toml::from_str::<File>("after = \"soon\"").map(|f| f.after);
        assert!(refused.unwrap_err().to_string().contains("never"));
    }
}
