//! Makes an engine smaller while its disk is short of room.
//!
//! What was deleted stays in tables until they are merged, which the engine does when enough was written. On a disk that is nearly
//! full nothing more may be written: then deletions would never bring any room back. So as long as there is less than twice the
//! margin, all tables are merged into new ones, if what is left of them fits and that is much less than they take.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fjall::{Database, Keyspace};
use lsm_tree::AbstractTree;

use crate::fjall::settle;
use crate::room::Room;

/// Tables of more bytes are left to the engine: who has those has a larger disk.
const TABLES_MAX: u64 = 1 << 30;
/// Less is not worth a merge.
const GAIN_MIN: u64 = 1 << 20;
/// Of its time, the part that this may take.
const PART: u32 = 10;

/// The engine that is to become smaller.
pub(crate) struct Shrinker {
    pub(crate) database: Database,
    pub(crate) keyspace: Keyspace,
    pub(crate) folder: PathBuf,
    pub(crate) room: Arc<Room>,
    /// The number of its last commit.
    pub(crate) committed: Arc<AtomicU64>,
}

/// What is known from the looks before.
#[derive(Default)]
pub(crate) struct Looks {
    /// The last commit of which nothing more can be gained.
    done: u64,
    next: Option<Instant>,
    /// What was said last.
    said: Option<String>,
}

impl Shrinker {
    /// Merges tables if there is need and use.
    pub(crate) fn look(&self, looks: &mut Looks) {
        let due = looks.next.is_none_or(|next| next <= Instant::now());
        let committed = self.committed.load(Ordering::Acquire);
        if !due || committed == looks.done || !self.room.is_short() {
            return;
        }
        let started = Instant::now();
        let trouble = match self.shrink() {
            Ok(true) => {
                looks.done = committed;
                None
            }
            // Somebody else may make room for it.
            Ok(false) => None,
            Err(error) => Some(error),
        };
        looks.next = Some(Instant::now() + started.elapsed() * PART);
        if let Some(error) = trouble.as_ref().filter(|_| trouble != looks.said) {
            let folder = self.folder.display();
            tracing::warn!(%error, %folder, "the key-value engine's tables are not merged");
        }
        looks.said = trouble;
    }

    /// False: there was no room.
    fn shrink(&self) -> Result<bool, String> {
        let waiting = self.keyspace.tree.active_memtable().size();
        let tables = self.keyspace.disk_space();
        if tables > TABLES_MAX {
            return Ok(true);
        }
        let mut live = 0;
        for item in self.keyspace.iter() {
            let (key, value) = item.into_inner().map_err(|error| error.to_string())?;
            live += (key.len() + value.len()) as u64;
        }
        if tables.saturating_sub(live) < GAIN_MIN.max(tables / 4) {
            return Ok(true);
        }
        // It is there beside what it is made of, and nobody copies meanwhile.
        if self.room.check_last(waiting + live).is_err() {
            return Ok(false);
        }
        settle(&self.database, &self.keyspace)?;
        let merged = self.keyspace.major_compact();
        merged.map_err(|error| error.to_string())?;
        let (folder, now) = (self.folder.display(), self.keyspace.disk_space());
        tracing::info!(%folder, before = tables, now, "its disk is short of room: tables were merged");
        Ok(true)
    }
}
