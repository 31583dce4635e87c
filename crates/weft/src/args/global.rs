//! The options of every command: which volume, and how connections to it are protected.

use std::path::PathBuf;

use clap::Args;
use weft_net::Wire;

/// Which volume, and the least protection of connections to it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Folder of the volume (as made by `weft up` or `weft format`)
    #[arg(long, global = true, env = "WEFT_VOLUME", value_name = "DIR")]
    pub(crate) volume: Option<PathBuf>,
    /// Address of the metadata service, where the volume's folder is not at hand
    #[arg(long, global = true, env = "WEFT_ADDRESS", value_name = "HOST:PORT")]
    pub(crate) address: Option<String>,
    /// File that holds the volume's key, with --address
    #[arg(
        long = "key-file",
        global = true,
        env = "WEFT_KEY_FILE",
        value_name = "FILE"
    )]
    pub(crate) key: Option<PathBuf>,
    /// The least protection of connections: mac (the usual), encrypted, or plain; with `weft up`,
    /// the setting of a new volume
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) wire: Option<Wire>,
}
