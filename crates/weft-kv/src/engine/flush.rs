//! Flushing: writing everything in the engine's memory, and so in its journal, to tables.

use std::time::Instant;

use fjall::{Database, Keyspace, PersistMode};
use lsm_tree::AbstractTree;

use crate::limits::{FLUSH_POLL_INTERVAL, FLUSH_TIMEOUT};

/// Writes everything in memory to tables.
///
/// # Errors
/// Why that failed, in words.
pub(crate) fn flush(database: &Database, keyspace: &Keyspace) -> Result<(), String> {
    // After a table could not be written, the engine writes none any more; only this call reports
    // it.
    let check = || database.persist(PersistMode::Buffer);
    let rotated = check().and_then(|()| keyspace.rotate_memtable());
    rotated.map_err(|error| error.to_string())?;
    let started = Instant::now();
    while keyspace.tree.sealed_memtable_count() > 0 {
        check().map_err(|error| error.to_string())?;
        if started.elapsed() > FLUSH_TIMEOUT {
            return Err("its tables cannot be written".to_owned());
        }
        std::thread::sleep(FLUSH_POLL_INTERVAL);
    }
    Ok(())
}
