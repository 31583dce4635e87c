//! What all open files of a mount share.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use weft_client::File;

use super::OpenData;

/// How much is held back, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct DataConfig {
    /// A write is acknowledged when it is in the cache; otherwise when it is at the servers.
    pub write_behind: bool,
    /// Dirty bytes of one file that start a flush.
    pub file_dirty: usize,
    /// Dirty bytes of the mount; writers wait beyond.
    pub total_dirty: usize,
    /// The age at which dirty bytes are flushed.
    pub flush_after: Duration,
    /// The largest window of read-ahead of one stream.
    pub read_ahead: usize,
    /// How long a write that fails because a server is away is repeated.
    pub patience: Duration,
}

impl Default for DataConfig {
    fn default() -> Self {
        DataConfig {
            write_behind: true,
            file_dirty: 4 << 20,
            total_dirty: 64 << 20,
            flush_after: Duration::from_secs(1),
            read_ahead: 8 << 20,
            patience: Duration::from_secs(8),
        }
    }
}

/// The data cache of a mount.
pub struct DataCache {
    pub(super) config: DataConfig,
    pub(super) runtime: Handle,
}

impl DataCache {
    /// A cache whose background work runs on `runtime`.
    pub fn new(config: DataConfig, runtime: Handle) -> Arc<DataCache> {
        Arc::new(DataCache { config, runtime })
    }

    /// Opens an attached file.
    pub fn open(self: &Arc<Self>, file: File) -> Result<OpenData, super::DataError> {
        OpenData::new(self.clone(), file)
    }
}
