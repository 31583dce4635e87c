//! How the frames of a volume's connections are protected.

use serde::{Deserialize, Serialize};
use weft_net::Wire;

/// A value of `wire` in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct WireSetting(pub(crate) Wire);

impl Default for WireSetting {
    fn default() -> Self {
        WireSetting(Wire::Mac)
    }
}

impl WireSetting {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde hands a reference
    pub(in crate::volume_config) fn is_default(&self) -> bool {
        *self == WireSetting::default()
    }
}

impl TryFrom<String> for WireSetting {
    type Error = String;

    fn try_from(text: String) -> Result<WireSetting, String> {
        text.parse().map(WireSetting)
    }
}

impl From<WireSetting> for String {
    fn from(setting: WireSetting) -> String {
        setting.0.to_string()
    }
}
