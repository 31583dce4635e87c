//! Time stamps of files.

use std::time::SystemTime;

/// Now, in nanoseconds since the epoch.
pub(super) fn now_nanos() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as i64)
}
