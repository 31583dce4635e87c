//! Compacts an engine's tables while its disk is short of space.
//!
//! Deleted pairs stay in tables until those are compacted, which the engine does after enough
//! writes. On a disk that is nearly full nothing more may be written, so deletions would never free
//! any space. Therefore, while less than twice the margin is free, all tables are merged into new
//! ones, if the live pairs fit and take much less than the tables.
//!
//! A compaction drops what no snapshot can see, and deletes files that no version of the tree
//! names, both as of the last memtable flush. So a commit and a flush come before a compaction and
//! after it, and also after the engine compacted by itself and kept the old tables.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fjall::{Database, Keyspace, PersistMode};
use lsm_tree::AbstractTree;
use parking_lot::Mutex;

use super::disk_reserve::DiskReserve;
use super::fault::EngineFault;
use super::flush::flush;
use crate::files::{TABLES, list, table_path, trees};
use crate::journal_batch::NUMBER_KEY;
use crate::limits::{
    COMPACT_BACKOFF, COMPACT_GAIN_MIN, COMPACT_REST_FACTOR, COMPACT_SPACE_FACTOR,
    COMPACT_TABLES_MAX, FLUSH_SPACE_FACTOR, FLUSH_SPACE_MIN, TABLE_ITEM_BYTES,
    WRITER_POLL_INTERVAL,
};

/// Compacts one engine instance.
pub(crate) struct Compactor {
    pub(crate) database: Database,
    pub(crate) keyspace: Keyspace,
    pub(crate) folder: PathBuf,
    pub(crate) reserve: Arc<DiskReserve>,
    /// Held for each commit.
    pub(crate) writer: Arc<Mutex<()>>,
    pub(crate) fault: Arc<EngineFault>,
    /// The number of its last commit.
    pub(crate) committed: Arc<AtomicU64>,
}

/// What is known from earlier runs.
#[derive(Default)]
pub(crate) struct CompactionState {
    /// The last commit as of which nothing more can be gained.
    done: Option<u64>,
    /// When the next run is due.
    next: Option<Instant>,
    /// Bytes of unlisted tables that a flush did not delete: of a failed compaction, say.
    stale: u64,
    /// The warning that was logged last.
    warned: Option<String>,
}

/// The outcome of a run.
enum CompactionOutcome {
    /// There is nothing to gain.
    NoGain,
    Compacted,
    /// The tables were compacted and are hardly smaller.
    Ineffective,
    /// There is no space for it, or the engine is being closed.
    Deferred,
}

impl Compactor {
    /// Compacts the tables if the disk is short of space and that frees some.
    pub(crate) fn run_if_needed(&self, state: &mut CompactionState, stopped: &dyn Fn() -> bool) {
        let due = state.next.is_none_or(|next| next <= Instant::now());
        if !due || !self.reserve.is_low() {
            return;
        }
        let started = Instant::now();
        let committed = self.committed.load(Ordering::Acquire);
        let outcome = match self.drop_stale_tables(&mut state.stale, stopped) {
            Ok(()) if state.done == Some(committed) => Ok(CompactionOutcome::NoGain),
            dropped => dropped.and_then(|()| self.compact(stopped)),
        };
        state.next = Some(Instant::now() + started.elapsed() * COMPACT_REST_FACTOR);
        let trouble = match outcome {
            Ok(CompactionOutcome::NoGain | CompactionOutcome::Compacted) => {
                state.done = Some(committed);
                None
            }
            Ok(CompactionOutcome::Deferred) => None,
            Ok(CompactionOutcome::Ineffective) => {
                state.next = Some(Instant::now() + COMPACT_BACKOFF);
                None
            }
            Err(error) => {
                // Its leftovers are deleted when the engine is opened next: do not add more.
                state.next = Some(Instant::now() + COMPACT_BACKOFF);
                Some(error)
            }
        };
        if let Some(error) = trouble.as_ref().filter(|_| trouble != state.warned) {
            let folder = self.folder.display();
            tracing::warn!(%error, %folder, "the key-value engine's tables are not compacted");
        }
        state.warned = trouble;
    }

    /// Makes the engine delete tables that only old versions name. `stale` are the bytes of those
    /// that an earlier call did not delete.
    fn drop_stale_tables(&self, stale: &mut u64, stopped: &dyn Fn() -> bool) -> Result<(), String> {
        let before = self.table_bytes().1;
        let in_memory = self.keyspace.tree.active_memtable().size();
        let flushing = self.keyspace.tree.sealed_memtable_count() > 0;
        let needed = FLUSH_SPACE_FACTOR * in_memory + FLUSH_SPACE_MIN;
        let has_space = self.reserve.has_free(needed);
        if before < *stale + COMPACT_GAIN_MIN || flushing || !has_space {
            return Ok(());
        }
        self.flush_memtable(stopped)?;
        let now = self.table_bytes().1;
        *stale = now;
        let folder = self.folder.display();
        tracing::info!(%folder, before, now, "the disk is short of space: stale tables are deleted");
        Ok(())
    }

    /// Bytes of the tables in use, and of the others.
    fn table_bytes(&self) -> (u64, u64) {
        let (mut used, mut others) = (0, 0);
        for tree in trees(&self.folder).unwrap_or_default() {
            let tree = self.folder.join(tree);
            let named = list(&tree).ok().and_then(|list| list.tables);
            let named = named.unwrap_or_default().into_iter();
            let named: HashSet<PathBuf> = named.map(|table| table_path(&tree, &table)).collect();
            let files = fs::read_dir(tree.join(TABLES)).into_iter().flatten();
            for file in files.flatten() {
                let bytes = file.metadata().map_or(0, |m| m.len());
                if named.contains(&file.path()) {
                    used += bytes;
                } else {
                    others += bytes;
                }
            }
        }
        (used, others)
    }

    fn compact(&self, stopped: &dyn Fn() -> bool) -> Result<CompactionOutcome, String> {
        let tables = self.table_bytes().0;
        if tables > COMPACT_TABLES_MAX {
            return Ok(CompactionOutcome::NoGain);
        }
        let all = self.keyspace.approximate_len() as u64;
        let (mut live, mut items) = (0_u64, 0_u64);
        for item in self.keyspace.iter() {
            let (key, value) = item.into_inner().map_err(|error| error.to_string())?;
            live += (key.len() + value.len() + TABLE_ITEM_BYTES) as u64;
            items += 1;
            if stopped() {
                return Ok(CompactionOutcome::Deferred);
            }
        }
        // Tables are compressed: the live pairs take no more than the tables do, and no more than
        // their share of all entries.
        live = live.min(tables);
        let share = u128::from(tables) * u128::from(items) / u128::from(all.max(1));
        let gain = tables.saturating_sub(live.min(share as u64));
        if gain < COMPACT_GAIN_MIN.max(tables / 4) {
            return Ok(CompactionOutcome::NoGain);
        }
        let in_memory = self.keyspace.tree.active_memtable().size();
        let needed = COMPACT_SPACE_FACTOR * live;
        if self.reserve.check_reclaim(in_memory + needed).is_err() {
            return Ok(CompactionOutcome::Deferred);
        }
        self.flush_memtable(stopped)?;
        if self.reserve.check_reclaim(needed).is_err() || stopped() {
            return Ok(CompactionOutcome::Deferred);
        }
        let compacted = self.keyspace.major_compact();
        compacted.map_err(|error| error.to_string())?;
        self.flush_memtable(stopped)?;
        let (folder, now) = (self.folder.display(), self.table_bytes().0);
        tracing::info!(%folder, before = tables, now, "the disk is short of space: tables are compacted");
        let gained = tables.saturating_sub(now);
        Ok(if gained < gain / 2 {
            CompactionOutcome::Ineffective
        } else {
            CompactionOutcome::Compacted
        })
    }

    /// Writes what is in memory to a table, be it only the number of the last commit.
    fn flush_memtable(&self, stopped: &dyn Fn() -> bool) -> Result<(), String> {
        {
            let _writer = loop {
                // A reopening holds the lock and waits for this thread.
                match self.writer.try_lock_for(WRITER_POLL_INTERVAL) {
                    Some(writer) => break writer,
                    None if stopped() => return Err("it was stopped".to_owned()),
                    None => {}
                }
            };
            self.fault.check().map_err(|error| error.to_string())?;
            let number = self.committed.load(Ordering::Acquire);
            let mut batch = self.database.batch().durability(Some(PersistMode::Buffer));
            batch.insert(&self.keyspace, NUMBER_KEY, number.to_le_bytes());
            batch.commit().map_err(|error| {
                self.fault.commit_failed(&error);
                error.to_string()
            })?;
        }
        flush(&self.database, &self.keyspace)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::engine::disk_reserve::DiskSpace;
    use crate::limits::MARGIN;
    use crate::{Batch, FjallKv, FjallOptions, OrderedKv, Space};

    const KEYS: Space = Space("keys");
    const TOTAL: u64 = 64 << 30;

    fn reserve(folder: &Path, free: u64) -> Arc<DiskReserve> {
        let measure = move |_: &Path| Ok(DiskSpace { free, total: TOTAL });
        Arc::new(DiskReserve::with_measure(folder, 0, Box::new(measure)))
    }

    fn write(kv: &FjallKv, numbers: std::ops::Range<u64>, value: Option<&[u8]>) {
        for number in numbers {
            let key = number.to_be_bytes().to_vec();
            let changes = vec![(KEYS, key, value.map(<[u8]>::to_vec))];
            kv.write(Batch { changes }).unwrap();
        }
    }

    /// The bytes of all files except journals and copies, which change during the test.
    fn bytes(folder: &Path) -> u64 {
        let of = |entry: fs::DirEntry| {
            let path = entry.path();
            if path.ends_with("weft.copies") {
                return 0;
            }
            if path.is_dir() {
                return bytes(&path);
            }
            let journal = path.extension().is_some_and(|e| e == "jnl");
            entry
                .metadata()
                .map_or(0, |m| if journal { 0 } else { m.len() })
        };
        fs::read_dir(folder).unwrap().flatten().map(of).sum()
    }

    #[test]
    fn compaction_counts_the_table_overhead_of_small_pairs() {
        let folder = tempfile::tempdir().unwrap();
        let kv = FjallKv::open(folder.path(), FjallOptions::default()).unwrap();
        let fill = |numbers: std::ops::Range<u64>, value: Option<&[u8]>| {
            let change = |number: u64| {
                let key = (number * 0x9e37_79b9).to_be_bytes().to_vec();
                (KEYS, key, value.map(<[u8]>::to_vec))
            };
            let numbers: Vec<u64> = numbers.collect();
            for some in numbers.chunks(1000) {
                let changes = some.iter().copied().map(change).collect();
                kv.write(Batch { changes }).unwrap();
            }
            kv.flush().unwrap();
        };
        fill(
            0..400_000,
            Some(b"the same in each of them, so that it can be compressed"),
        );
        kv.compactor(reserve(folder.path(), 2 * MARGIN - 1))
            .keyspace
            .major_compact()
            .unwrap();
        fill(0..300_000, None);
        let mut state = CompactionState::default();
        let before = bytes(folder.path());
        kv.compactor(reserve(folder.path(), 2 * MARGIN - 1))
            .run_if_needed(&mut state, &|| false);
        let after = bytes(folder.path());
        assert!(
            state.done.is_some() && after < before / 2,
            "{before} bytes became {after}"
        );
    }

    #[test]
    fn deletions_free_disk_space_when_it_is_short() {
        let folder = tempfile::tempdir().unwrap();
        let options = FjallOptions {
            memtable: 1 << 20,
            ..FjallOptions::default()
        };
        let kv = FjallKv::open(folder.path(), options).unwrap();
        let noise: Vec<u8> = (0..4000_u64).map(|n| (n * n % 251) as u8).collect();
        write(&kv, 0..4000, Some(&noise));
        kv.flush().unwrap();
        // One of the engine's levels is empty until its first compaction.
        let full = kv
            .compactor(reserve(folder.path(), 2 * MARGIN - 1))
            .keyspace
            .disk_space();
        assert!(full > 8 << 20, "{full}");
        write(&kv, 0..3900, None);
        let look = |free| {
            let mut state = CompactionState::default();
            kv.compactor(reserve(folder.path(), free))
                .run_if_needed(&mut state, &|| false);
            (state.done.is_some(), bytes(folder.path()))
        };
        let (done, before) = look(2 * MARGIN);
        assert!(!done, "a compaction ran in spite of enough space");
        let (done, _) = look(MARGIN / 4);
        assert!(!done, "a compaction ran without space for the live pairs");
        let (done, after) = look(2 * MARGIN - 1);
        assert!(
            done && after < before - (4 << 20),
            "{before} bytes became {after}"
        );
        assert!(after < 2 << 20, "{after} bytes");
        drop(kv);
        let kv = FjallKv::open(folder.path(), options).unwrap();
        let snapshot = kv.snapshot().unwrap();
        for number in 0..4000_u64 {
            let found = snapshot.get(KEYS, &number.to_be_bytes()).unwrap();
            assert_eq!(found.is_some(), number >= 3900, "{number}");
        }
    }
}
