//! Which bytes in the cells survive power loss.

#[derive(Debug)]
pub(super) struct Durability {
    /// Syncs in progress for which it is enough that batches sent from now on are durable.
    syncing: usize,
    /// Bytes in the cells may not survive power loss yet.
    unsynced: bool,
}

impl Durability {
    /// Of a new file nothing is unsynced; an open that has ended may not have synced another.
    pub(super) fn new(created: bool) -> Durability {
        Durability {
            syncing: 0,
            unsynced: !created,
        }
    }

    pub(super) fn is_unsynced(&self) -> bool {
        self.unsynced
    }

    /// Bytes in the cells need a sync.
    pub(super) fn note_unsynced(&mut self) {
        self.unsynced = true;
    }

    /// A sync begins: bytes that arrive from now on belong to a later one. Returns whether there is
    /// anything to sync.
    pub(super) fn take_unsynced(&mut self) -> bool {
        std::mem::replace(&mut self.unsynced, false)
    }

    /// Whether what is sent now is to be durable on arrival.
    pub(super) fn sends_durably(&self) -> bool {
        self.syncing > 0
    }

    pub(super) fn begin_durable_sends(&mut self) {
        self.syncing += 1;
    }

    pub(super) fn end_durable_sends(&mut self) {
        self.syncing -= 1;
    }
}
