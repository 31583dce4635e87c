//! Which volume a program means.

use weft_client::ConnectOptions;

use crate::failure::Failure;

/// A volume as a program names it. If neither `folder` nor `address` is given, the environment says
/// which volume it is, as for the command `weft`: `WEFT_VOLUME` names its folder, or `WEFT_ADDRESS`
/// and `WEFT_KEY_FILE` its address and the file with its key.
#[derive(Clone, Debug, Default)]
pub struct NamedVolume {
    /// Folder of the volume, as made by `weft up` or `weft format`.
    pub folder: Option<String>,
    /// `HOST:PORT` of the metadata service; needs `key_file`.
    pub address: Option<String>,
    /// File with the volume's key.
    pub key_file: Option<String>,
}

impl NamedVolume {
    /// How to connect to it.
    ///
    /// # Errors
    /// When no volume is named, or two, or its folder or key cannot be read.
    pub fn options(self) -> Result<ConnectOptions, Failure> {
        let NamedVolume {
            mut folder,
            mut address,
            mut key_file,
        } = self;
        let of_environment = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        if folder.is_none() && address.is_none() {
            folder = of_environment("WEFT_VOLUME");
            if folder.is_none() {
                address = of_environment("WEFT_ADDRESS");
            }
        }
        if address.is_some() && key_file.is_none() {
            key_file = of_environment("WEFT_KEY_FILE");
        }
        let wanted = match (folder, address, key_file) {
            (Some(folder), None, None) => ConnectOptions::from_folder(folder)?,
            (None, Some(address), Some(key_file)) => {
                ConnectOptions::from_address(&address, key_file)?
            }
            (None, Some(_), None) => {
                return Err(Failure::invalid(
                    "an address needs the file with the volume's key: set key_file or WEFT_KEY_FILE",
                ));
            }
            (None, None, _) => {
                return Err(Failure::invalid(
                    "no volume is named: set folder, or address and key_file, or WEFT_VOLUME",
                ));
            }
            (Some(_), ..) => {
                return Err(Failure::invalid(
                    "a volume is named by its folder, or by its address and key file, not by both",
                ));
            }
        };
        Ok(wanted)
    }
}
