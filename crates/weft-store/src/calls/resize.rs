//! Truncations and extensions.

use weft_layout::{ADDRESSED_BIT, ChunkCode, FileId};

use crate::engine::{Store, detached};
use crate::error::StoreError;
use crate::key::{ForkKey, Timestamp};

impl Store {
    /// Sets the lengths of forks of one file: truncates them or extends them with holes. Operations
    /// are numbered per file: one that is not newer than the last is skipped, so repeating is safe.
    /// A fork that does not exist is made if its new length is not 0, or if its absence is in
    /// doubt; its chunk size is fixed by its first write. If the last block of a truncated fork
    /// fails its checksum, the whole block is marked as lost.
    ///
    /// Cost: O(forks); of each at most one block is read. The space of many chunks is freed in the
    /// background.
    /// # Durability
    /// As [`Store::write`]; all lengths change at once.
    /// # Errors
    /// [`StoreError::NoSpace`] if there is no free block, not even in the reserve, for the block
    /// that a new length divides; nothing was changed then. A length at a block's boundary, such as
    /// 0, needs none.
    pub async fn truncate(
        &self,
        file: FileId,
        lengths: Vec<(ForkKey, u64)>,
        op: u64,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        for (key, _) in &lengths {
            if self.addressed(key, None)?.is_some() {
                let store = self.clone();
                let truncated = async move {
                    let truncated = store.truncate_addressed(file, lengths, op, modified);
                    truncated.await
                };
                return detached(truncated).await;
            }
        }
        self.truncate_plain(file, lengths, op, modified).await
    }

    /// Extends a fork to at least this length with a hole; makes it if it does not exist. Repeating
    /// is safe.
    ///
    /// # Durability
    /// As [`Store::write`].
    pub async fn extend(
        &self,
        key: &ForkKey,
        chunk: ChunkCode,
        length: u64,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        if chunk & ADDRESSED_BIT == 0 {
            return self.extend_plain(key, chunk, length, modified).await;
        }
        let (store, key) = (self.clone(), key.clone());
        let extended = async move {
            let extended = store.extend_addressed(&key, chunk, length, modified);
            extended.await
        };
        detached(extended).await
    }
}
