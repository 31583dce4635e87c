//! The options of a data cache.

use std::time::Duration;

/// How much is held back, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct DataConfig {
    /// A write is acknowledged when it is in the cache; otherwise (strict) when it is at the
    /// servers, and nothing is read ahead.
    pub write_behind: bool,
    /// Dirty bytes of one file that start a flush.
    pub file_dirty: usize,
    /// Dirty bytes of the mount; writers wait beyond.
    pub total_dirty: usize,
    /// The age at which dirty bytes are flushed.
    pub flush_after: Duration,
    /// The largest read-ahead window of one stream, in bytes.
    pub read_ahead: usize,
    /// How long calls wait for an unreachable service: the failure detection time.
    pub outage_timeout: Duration,
}

impl Default for DataConfig {
    fn default() -> Self {
        DataConfig {
            write_behind: true,
            file_dirty: 4 << 20,
            total_dirty: 64 << 20,
            flush_after: Duration::from_secs(1),
            read_ahead: 8 << 20,
            // weft_net::Timing: silence and connect.
            outage_timeout: Duration::from_secs(8),
        }
    }
}
