//! How to reach a volume.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weft_client::ConnectOptions;

/// How to reach a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumePlace {
    /// By its folder.
    Folder(PathBuf),
    /// By the address of its metadata service and the file of its key.
    Address(String, PathBuf),
}

impl TryFrom<&VolumePlace> for ConnectOptions {
    type Error = weft_client::Error;

    fn try_from(place: &VolumePlace) -> Result<ConnectOptions, weft_client::Error> {
        match place {
            VolumePlace::Folder(folder) => ConnectOptions::from_folder(folder),
            VolumePlace::Address(address, key) => ConnectOptions::from_address(address, key),
        }
    }
}
