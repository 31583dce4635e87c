//! How long a file must be quiet before it is coded, as people write it.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weft_server::CODE_AFTER;

/// A time such as `60s` or `1h 30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeAfter(pub(crate) Duration);

impl CodeAfter {
    pub(super) fn is_default(&self) -> bool {
        *self == CodeAfter::default()
    }
}

impl Default for CodeAfter {
    fn default() -> CodeAfter {
        CodeAfter(CODE_AFTER)
    }
}

impl Serialize for CodeAfter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for CodeAfter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CodeAfter, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time = humantime::parse_duration(&text).map_err(|e| {
            let what = format!("{text:?} is no time ({e}): write it as \"60s\"");
            serde::de::Error::custom(what)
        })?;
        Ok(CodeAfter(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct File {
        after: CodeAfter,
    }

    #[test]
    fn a_printed_time_is_read_back_and_nonsense_is_refused() {
        for seconds in [1, 60, 5400] {
            let after = CodeAfter(Duration::from_secs(seconds));
            let text = toml::to_string(&File { after }).unwrap();
            assert_eq!(toml::from_str::<File>(&text).unwrap().after, after);
        }
        assert!(CodeAfter::default().is_default());
        let refused = toml::from_str::<File>("after = \"later\"").map(|f| f.after);
        assert!(refused.unwrap_err().to_string().contains("60s"));
    }
}
