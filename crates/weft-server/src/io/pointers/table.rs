//! The pointers in memory.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_layout::FileId;

use super::gathering::Gathering;
use super::state::PointerState;
use crate::limits::IDLE_POINTERS_MAX;

/// A pointer in memory.
#[derive(Default)]
pub(super) struct Slot {
    /// `None`: not loaded yet, or there is none.
    pub(super) state: Option<PointerState>,
    pub(super) gathering: Option<Gathering>,
}

type SharedSlot = Arc<tokio::sync::Mutex<Slot>>;

/// The pointers of one server.
#[derive(Default)]
pub(in crate::io) struct Pointers(Mutex<HashMap<(FileId, String), SharedSlot>>);

impl Pointers {
    pub(super) fn slot(&self, file: FileId, name: &str) -> SharedSlot {
        let mut slots = self.0.lock();
        if slots.len() >= IDLE_POINTERS_MAX {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        Arc::clone(slots.entry((file, name.to_owned())).or_default())
    }

    /// Forgets what is in memory: another replica of the server has changed the store since.
    pub(in crate::io) fn forget(&self) {
        self.0.lock().clear();
    }

    /// The pointers of these files that calls have used lately.
    pub(super) fn slots_of(&self, files: &[FileId]) -> Vec<SharedSlot> {
        let slots = self.0.lock();
        let of_files = slots.iter().filter(|((file, _), _)| files.contains(file));
        of_files.map(|(_, slot)| Arc::clone(slot)).collect()
    }
}
