//! The options of every command: which volume, and how connections to it are protected.

use std::path::{Path, PathBuf};

use clap::Args;
use weft_net::Wire;

/// Which volume, and the minimum protection of connections to it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Folder of the volume (as made by `weft up` or `weft format`)
    #[arg(long, global = true, env = "WEFT_VOLUME", value_name = "DIR")]
    volume: Option<PathBuf>,
    /// Address of the metadata service, for a machine without the volume's folder
    #[arg(long, global = true, env = "WEFT_ADDRESS", value_name = "HOST:PORT")]
    address: Option<String>,
    /// File with the volume's key; needed with --address
    #[arg(
        long = "key-file",
        global = true,
        env = "WEFT_KEY_FILE",
        value_name = "FILE"
    )]
    key: Option<PathBuf>,
    /// Minimum protection of connections: mac (the default), encrypted, or plain; with `weft up`,
    /// the setting of a new volume
    #[arg(long, global = true, value_name = "LEVEL")]
    wire: Option<Wire>,
}

impl Global {
    /// The options that name the volume by its folder, and nothing else.
    pub(crate) fn of_folder(folder: PathBuf) -> Global {
        Global {
            volume: Some(folder),
            address: None,
            key: None,
            wire: None,
        }
    }

    /// Names the volume by its folder from now on.
    pub(crate) fn name_folder(&mut self, folder: PathBuf) {
        self.volume = Some(folder);
        self.address = None;
    }

    /// Names the volume by its address from now on.
    pub(crate) fn name_address(&mut self, address: String) {
        self.address = Some(address);
        self.volume = None;
    }

    /// Names the file of the key from now on.
    pub(crate) fn name_key(&mut self, key: PathBuf) {
        self.key = Some(key);
    }

    /// The folder that was named. An address takes precedence over it.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.volume.as_deref()
    }

    /// The address that was named.
    pub(crate) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// The file of the key that was named.
    pub(crate) fn key(&self) -> Option<&Path> {
        self.key.as_deref()
    }

    /// The minimum protection of connections that was named.
    pub(crate) fn wire(&self) -> Option<Wire> {
        self.wire
    }
}
