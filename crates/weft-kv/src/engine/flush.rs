//! Bringing everything in the engine's journal into its tables.

use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, PersistMode};
use lsm_tree::AbstractTree;

/// How long tables may take to be written.
const SETTLED: Duration = Duration::from_mins(2);

/// How often it is looked whether they are.
const SETTLING: Duration = Duration::from_millis(2);

/// Brings everything into tables; or says why not.
pub(crate) fn flush(database: &Database, keyspace: &Keyspace) -> Result<(), String> {
    // Where a table could not be written, nobody writes one any more; this is what tells.
    let check = || database.persist(PersistMode::Buffer);
    let rotated = check().and_then(|()| keyspace.rotate_memtable());
    rotated.map_err(|error| error.to_string())?;
    let started = Instant::now();
    while keyspace.tree.sealed_memtable_count() > 0 {
        check().map_err(|error| error.to_string())?;
        if started.elapsed() > SETTLED {
            return Err("its tables cannot be written".to_owned());
        }
        std::thread::sleep(SETTLING);
    }
    Ok(())
}
