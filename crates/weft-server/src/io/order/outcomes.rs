//! The operations that have taken effect here, so that others can ask after a crash.
//!
//! They are a ring of entries in a fork of the file [`ORDER_STATE`], cell 1: 16 bytes each, the
//! operation's number and a sequence. An entry is written in the same batch as the operation's
//! bytes, so that the store has both or neither.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use weft_layout::{CellIndex, CellOffset};
use weft_store::{CHUNK_MIN, ForkKey, ForkName, ORDER_STATE, StoreError, Timestamp, Write};

use crate::io::replica::ReplicatedStore;
use crate::limits::OUTCOMES_MAX;

const ENTRY_BYTES: usize = 16;

fn key() -> ForkKey {
    ForkKey {
        file: ORDER_STATE,
        cell: CellIndex(1),
        fork: ForkName::data(),
    }
}

#[derive(Default)]
struct Ring {
    /// The sequence of the last entry.
    last: u64,
    /// The operations with an entry, and its sequence.
    committed: HashMap<u64, u64>,
    /// The operation of each entry; 0: none.
    entries: Vec<u64>,
}

impl Ring {
    /// Adds the entries of a fork.
    fn decode(&mut self, bytes: &[u8]) {
        for entry in bytes.as_chunks::<ENTRY_BYTES>().0 {
            let both = u128::from_le_bytes(*entry);
            let (operation, sequence) = (both as u64, (both >> 64) as u64);
            if operation != 0 {
                self.keep(operation, sequence);
            }
        }
    }

    fn keep(&mut self, operation: u64, sequence: u64) {
        self.entries.resize(OUTCOMES_MAX, 0);
        let former = &mut self.entries[sequence as usize % OUTCOMES_MAX];
        if self.committed.get(former).is_some_and(|of| *of < sequence) {
            self.committed.remove(former);
        }
        *former = operation;
        self.committed.insert(operation, sequence);
        self.last = self.last.max(sequence);
    }
}

fn entry_bytes(operation: u64, sequence: u64) -> [u8; ENTRY_BYTES] {
    let both = u128::from(sequence) << 64 | u128::from(operation);
    both.to_le_bytes()
}

/// The last [`OUTCOMES_MAX`] operations that have taken effect.
#[derive(Default)]
pub(super) struct Outcomes {
    /// Loaded at the first use; another one after [`Outcomes::forget`].
    ring: Mutex<Arc<OnceCell<Mutex<Ring>>>>,
    /// Held while the fork is written anew.
    renewing: tokio::sync::Mutex<()>,
}

/// An outcome that is about to be written.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    operation: u64,
    sequence: u64,
}

impl Outcomes {
    /// Forgets what is in memory: another replica has changed the store since.
    pub(super) fn forget(&self) {
        *self.ring.lock() = Arc::default();
    }

    /// Looks at the ring, or changes it.
    async fn ring<T>(
        &self,
        store: &ReplicatedStore,
        with: impl FnOnce(&mut Ring) -> T,
    ) -> Result<T, StoreError> {
        let ring = self.ring.lock().clone();
        let loaded = ring.get_or_try_init(|| load(store)).await?;
        let result = with(&mut loaded.lock());
        Ok(result)
    }

    /// Writes the fork anew from memory if an entry cannot be read: a commit could not write it
    /// either, as blocks are read before a part of them is written.
    async fn heal(&self, store: &ReplicatedStore, at: CellOffset) -> Result<(), StoreError> {
        let readable = async || store.read(&key(), at, ENTRY_BYTES as u64).await;
        if readable().await.is_ok() {
            return Ok(());
        }
        let _renewing = self.renewing.lock().await;
        let Err(error) = readable().await else {
            return Ok(());
        };
        if matches!(error, StoreError::Closed) {
            return Err(error);
        }
        tracing::warn!(%error, "the outcomes of operations cannot be read, and are written anew");
        let known = |ring: &mut Ring| {
            let known = ring.committed.iter();
            known.map(|(o, s)| (*o, *s)).collect::<Vec<_>>()
        };
        let known = self.ring(store, known).await?;
        store.remove_fork(&key()).await?;
        let writes = known.into_iter().map(|(o, s)| write(o, s)).collect();
        store.write(writes, Timestamp(0)).await
    }

    /// The next entry, and how it is written.
    pub(super) async fn next(
        &self,
        store: &ReplicatedStore,
        operation: u64,
    ) -> Result<(Entry, Write), StoreError> {
        let next = |ring: &mut Ring| {
            ring.last += 1;
            ring.last
        };
        let sequence = self.ring(store, next).await?;
        let write = write(operation, sequence);
        self.heal(store, write.offset).await?;
        let entry = Entry {
            operation,
            sequence,
        };
        Ok((entry, write))
    }

    /// The store has the entry.
    pub(super) fn keep(&self, entry: Entry) {
        let ring = self.ring.lock().clone();
        if let Some(ring) = ring.get() {
            ring.lock().keep(entry.operation, entry.sequence);
        }
    }

    /// Whether an operation has taken effect here.
    pub(super) async fn has(
        &self,
        store: &ReplicatedStore,
        operation: u64,
    ) -> Result<bool, StoreError> {
        let has = |ring: &mut Ring| ring.committed.contains_key(&operation);
        self.ring(store, has).await
    }
}

/// Writes an entry to its place.
fn write(operation: u64, sequence: u64) -> Write {
    let at = sequence as usize % OUTCOMES_MAX * ENTRY_BYTES;
    Write {
        key: key(),
        chunk: CHUNK_MIN,
        offset: CellOffset(at as u64),
        data: Bytes::copy_from_slice(&entry_bytes(operation, sequence)),
    }
}

async fn load(store: &ReplicatedStore) -> Result<Mutex<Ring>, StoreError> {
    let mut ring = Ring::default();
    if let Some(status) = store.status(&key()).await? {
        match store.read(&key(), CellOffset(0), status.length).await {
            Ok(bytes) => ring.decode(&bytes.concat()),
            Err(error @ StoreError::Closed) => return Err(error),
            Err(error) => {
                // Only operations that were under way when the server stopped can still be asked
                // for.
                tracing::error!(%error, "the outcomes of operations cannot be read, and are kept anew from now on");
                store.remove_fork(&key()).await?;
            }
        }
    }
    Ok(Mutex::new(ring))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_keeps_its_bytes() {
        let entry = entry_bytes(0x0102_0304_0506_0708, 3);
        assert_eq!(entry, [8, 7, 6, 5, 4, 3, 2, 1, 3, 0, 0, 0, 0, 0, 0, 0]);
        let mut ring = Ring::default();
        ring.decode(&[[0; ENTRY_BYTES], entry].concat());
        assert!(ring.committed.contains_key(&0x0102_0304_0506_0708));
        assert_eq!((ring.committed.len(), ring.last), (1, 3));
    }

    #[test]
    fn the_last_outcomes_are_known_and_older_ones_forgotten() {
        let mut ring = Ring::default();
        let most = OUTCOMES_MAX as u64;
        for sequence in 1..=most + 3 {
            ring.keep(sequence << 20, sequence);
        }
        assert_eq!(ring.committed.len(), OUTCOMES_MAX);
        assert!(!ring.committed.contains_key(&(3 << 20)));
        assert!(ring.committed.contains_key(&(4 << 20)));
        assert!(ring.committed.contains_key(&((most + 3) << 20)));
        assert_eq!(ring.last, most + 3);
    }
}
