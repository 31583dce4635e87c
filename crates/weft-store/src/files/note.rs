//! Small things that whoever owns a store keeps in its index: how far a scrub is, say.

use weft_kv::Batch;

use crate::engine::Store;
use crate::error::StoreError;
use crate::record::{META, NoteRecord};

impl Store {
    /// What was kept under a name last.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it is not what was kept.
    pub fn note(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let key = NoteRecord::key(name);
        let value = self.0.index.snapshot()?.get(META, &key)?;
        value
            .map(|value| NoteRecord::decode(&key, &value))
            .transpose()
    }

    /// Keeps bytes under a name, instead of what was there.
    ///
    /// # Durability
    /// Survives the death of the process; power loss after the next application of the log.
    pub fn set_note(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        let change = (META, NoteRecord::key(name), Some(NoteRecord::encode(value)));
        self.0.index.write(Batch {
            changes: vec![change],
        })?;
        Ok(())
    }
}
