//! The files with forced caution.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use weft_layout::ServerId;

/// The files with forced caution, and their servers.
#[derive(Default)]
pub(in crate::meta) struct ForcedFiles(Mutex<BTreeMap<u64, Vec<ServerId>>>);

impl ForcedFiles {
    pub(super) fn add(&self, file: u64, servers: Vec<ServerId>) {
        self.0.lock().insert(file, servers);
    }

    pub(super) fn files(&self) -> Vec<u64> {
        self.0.lock().keys().copied().collect()
    }

    /// The servers of a file, which is forgotten unless it is `kept`.
    pub(super) fn servers(&self, file: u64, kept: bool) -> Vec<ServerId> {
        let mut files = self.0.lock();
        let servers = if kept {
            files.get(&file).cloned()
        } else {
            files.remove(&file)
        };
        servers.unwrap_or_default()
    }
}
