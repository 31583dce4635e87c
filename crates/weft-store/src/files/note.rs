//! Notes: small values that the server keeps in the store's index, such as the position of a scrub.

use weft_kv::Batch;

use crate::engine::Store;
use crate::error::StoreError;
use crate::record::{META, NoteRecord};

impl Store {
    /// The note of this name; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it is not what was stored.
    pub fn note(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let key = NoteRecord::key(name);
        let value = self.0.index().snapshot()?.get(META, &key)?;
        value
            .map(|value| NoteRecord::decode(&key, &value))
            .transpose()
    }

    /// Stores a note under a name, in place of the one before.
    ///
    /// # Durability
    /// Survives a kill at once, and power loss after the next application of the log.
    pub fn set_note(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        let change = (META, NoteRecord::key(name), Some(NoteRecord::encode(value)));
        self.0.index().write(Batch {
            changes: vec![change],
        })?;
        Ok(())
    }
}
