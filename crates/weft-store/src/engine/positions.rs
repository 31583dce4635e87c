//! The store's incarnations and positions, and the position that the metadata service reported.

use std::io;

use weft_kv::{History, Incarnation, Position};

use super::Store;
use crate::error::StoreError;
use crate::record::ServicePositionRecord;
use crate::storage::FileKind;

/// The file with the last durable position of the metadata service.
const HEARD: &str = "service";
/// Most bytes of that file.
const HEARD_BYTES: usize = 4096;

impl Store {
    /// This incarnation of the store.
    pub fn incarnation(&self) -> Incarnation {
        let history = self.0.incarnations().history();
        *history.current().expect("an open store has begun one")
    }

    /// A position that covers everything that the store has acknowledged until now.
    pub fn position(&self) -> Position {
        Position {
            incarnation: self.incarnation().number,
            sequence: self.0.incarnations().appended_through(),
        }
    }

    /// Everything up to this position is on stable storage, so every later incarnation has it.
    pub fn durable_position(&self) -> Position {
        Position {
            incarnation: self.incarnation().number,
            sequence: self.0.incarnations().durable_through(),
        }
    }

    /// Whether everything that was acknowledged at a position is still there.
    ///
    /// # Errors
    /// The incarnation that began without it.
    /// # Source
    /// `docs/design/0021-incarnations.md`; `weft_kv::History`.
    pub fn still_has(&self, at: Position) -> Result<(), Incarnation> {
        let incarnations = self.0.incarnations();
        let reached = incarnations.appended_through();
        let held = incarnations.history().holds(at, reached);
        held.map_err(|without| without.unwrap_or_else(|| self.incarnation()))
    }

    /// The durable position of the namespace that the server observed last; `None` if the file is
    /// damaged or not there.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn observed_service_position(&self) -> Result<Option<Position>, StoreError> {
        let storage = self.0.storage();
        let fail = |e: io::Error| StoreError::io("read", HEARD, &e);
        if !storage
            .list()
            .map_err(fail)?
            .iter()
            .any(|name| name == HEARD)
        {
            return Ok(None);
        }
        let file = storage.open(HEARD, FileKind::Log).map_err(fail)?;
        let bytes = file.read_buffered(0, HEARD_BYTES).map_err(fail)?;
        Ok(ServicePositionRecord::decode(&bytes).map(|record| record.0))
    }

    /// Stores the durable position of the namespace that the server observed, in place of the one
    /// before.
    ///
    /// # Durability
    /// On stable storage on return.
    pub async fn set_service_position(&self, at: Position) -> Result<(), StoreError> {
        let storage = self.0.storage();
        let fail = |e: io::Error| StoreError::io("write", HEARD, &e);
        let file = storage.open(HEARD, FileKind::Log).map_err(fail)?;
        file.write_buffered(0, &ServicePositionRecord(at).encode())
            .map_err(fail)?;
        file.sync().await.map_err(fail)?;
        storage.sync_folder().map_err(fail)
    }

    /// All incarnations that the store knows of, oldest first.
    pub fn history(&self) -> &History {
        self.0.incarnations().history()
    }
}
