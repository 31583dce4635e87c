//! Space and file counts of a volume, and the last answer of the volume.

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_client::Quota;

use crate::limits::SPACE_VALID;

/// How full a volume is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub capacity: u64,
    /// Bytes left.
    pub available: u64,
    /// Files and directories in the volume; in a tree with a quota, at most its limit.
    pub files: u64,
    /// How many more can be created.
    pub files_free: u64,
    /// A quota limits the bytes left.
    pub by_quota: bool,
}

impl Space {
    /// Limits it to what a quota leaves.
    pub(super) fn limit_to(&mut self, quota: &Quota) {
        if let Some(most) = quota.bytes_max {
            self.capacity = self.capacity.min(most);
            let left = most.saturating_sub(quota.bytes);
            self.by_quota |= left < self.available;
            self.available = self.available.min(left);
        }
        if let Some(most) = quota.files_max {
            self.files = self.files.min(most);
            let left = most.saturating_sub(quota.files);
            self.files_free = self.files_free.min(left);
        }
    }
}

/// The volume's last answer: when it came, the id that it is for, and the space.
#[derive(Debug, Default)]
pub(in crate::fs) struct SpaceCache(Mutex<Option<(Instant, u64, Space)>>);

impl SpaceCache {
    /// The space for this file or directory, if it was asked for a moment ago.
    pub(in crate::fs) fn get(&self, id: u64) -> Option<Space> {
        let (when, of, space) = (*self.0.lock())?;
        (of == id && when.elapsed() < SPACE_VALID).then_some(space)
    }

    pub(in crate::fs) fn set(&self, id: u64, space: Space) {
        *self.0.lock() = Some((Instant::now(), id, space));
    }
}
