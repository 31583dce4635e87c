//! Makes an engine smaller while its disk is short of room.
//!
//! What was deleted stays in tables until they are merged, which the engine does when enough was
//! written. On a disk that is nearly full nothing more may be written: then deletions would never
//! bring any room back. So as long as there is less than twice the margin, all tables are merged
//! into new ones, if what is left of them fits and that is much less than they take.
//!
//! The engine drops what no snapshot may see any more, and removes files that no version of the
//! tree names, as of the last time that it sealed what is in memory. So something is committed and
//! sealed before a merge, and again after it; and where the engine has merged by itself and keeps
//! the tables of before, too.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, PersistMode};
use lsm_tree::AbstractTree;
use parking_lot::Mutex;

use super::fault::Fault;
use super::flush::flush;
use super::room::Room;
use crate::batch::NUMBER_KEY;
use crate::files::{TABLES, list, table_path, trees};

/// Tables of more bytes are left to the engine: who has those has a larger disk.
const TABLES_MAX: u64 = 1 << 30;
/// Less is not worth a merge.
const GAIN_MIN: u64 = 1 << 20;
/// What a table has beside each key and value, roughly.
const ITEM_BYTES: usize = 32;
/// Room for so many times what is left must be there: another process may merge on the same disk.
const TIMES: u64 = 2;
/// Of its time, the part that this may take.
const PART: u32 = 10;
/// Room for a table of what is in memory must be there so many times, and this much.
const SEALING: (u64, u64) = (2, 2 << 20);
/// After a merge that brought less than was hoped for: somebody holds a snapshot.
const VAIN: Duration = Duration::from_mins(10);

/// How often a wait for the writer lock looks whether it is to stop.
const WRITER: Duration = Duration::from_millis(50);

/// The engine that is to become smaller.
pub(crate) struct Shrinker {
    pub(crate) database: Database,
    pub(crate) keyspace: Keyspace,
    pub(crate) folder: PathBuf,
    pub(crate) room: Arc<Room>,
    /// Held for each commit.
    pub(crate) writer: Arc<Mutex<()>>,
    pub(crate) fault: Arc<Fault>,
    /// The number of its last commit.
    pub(crate) committed: Arc<AtomicU64>,
}

/// What is known from the looks before.
#[derive(Default)]
pub(crate) struct Looks {
    /// The last commit of which nothing more can be gained.
    done: Option<u64>,
    next: Option<Instant>,
    /// Bytes of tables that no list names and that stayed all the same: of a merge that failed,
    /// say.
    stay: u64,
    /// What was said last.
    said: Option<String>,
}

/// What a look came to.
enum Shrunk {
    /// There is nothing to gain.
    Small,
    Merged,
    /// It was merged, and is no smaller.
    InVain,
    /// There is no room, or no time any more.
    Not,
}

impl Shrinker {
    /// Merges tables if there is need and use.
    pub(crate) fn look(&self, looks: &mut Looks, stopped: &dyn Fn() -> bool) {
        let due = looks.next.is_none_or(|next| next <= Instant::now());
        if !due || !self.room.is_short() {
            return;
        }
        let started = Instant::now();
        let committed = self.committed.load(Ordering::Acquire);
        let shrunk = match self.let_go(&mut looks.stay, stopped) {
            Ok(()) if looks.done == Some(committed) => Ok(Shrunk::Small),
            done => done.and_then(|()| self.shrink(stopped)),
        };
        looks.next = Some(Instant::now() + started.elapsed() * PART);
        let trouble = match shrunk {
            Ok(Shrunk::Small | Shrunk::Merged) => {
                looks.done = Some(committed);
                None
            }
            Ok(Shrunk::Not) => None,
            Ok(Shrunk::InVain) => {
                looks.next = Some(Instant::now() + VAIN);
                None
            }
            Err(error) => {
                // What it left is removed when the engine is opened the next time: not much more of
                // it.
                looks.next = Some(Instant::now() + VAIN);
                Some(error)
            }
        };
        if let Some(error) = trouble.as_ref().filter(|_| trouble != looks.said) {
            let folder = self.folder.display();
            tracing::warn!(%error, %folder, "the key-value engine's tables are not merged");
        }
        looks.said = trouble;
    }

    /// Has the engine let go of tables that only versions before the present one name. `stay`:
    /// bytes of such that did not go.
    fn let_go(&self, stay: &mut u64, stopped: &dyn Fn() -> bool) -> Result<(), String> {
        let before = self.tables().1;
        let waiting = self.keyspace.tree.active_memtable().size();
        let sealing = self.keyspace.tree.sealed_memtable_count() > 0;
        let room = self.room.has(SEALING.0 * waiting + SEALING.1);
        if before < *stay + GAIN_MIN || sealing || !room {
            return Ok(());
        }
        self.seal(stopped)?;
        let now = self.tables().1;
        *stay = now;
        let folder = self.folder.display();
        tracing::info!(%folder, before, now, "its disk is short of room: tables of before a merge went");
        Ok(())
    }

    /// Bytes of the tables that are in use, and of the others that are there.
    fn tables(&self) -> (u64, u64) {
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

    fn shrink(&self, stopped: &dyn Fn() -> bool) -> Result<Shrunk, String> {
        let tables = self.tables().0;
        if tables > TABLES_MAX {
            return Ok(Shrunk::Small);
        }
        let all = self.keyspace.approximate_len() as u64;
        let (mut live, mut items) = (0_u64, 0_u64);
        for item in self.keyspace.iter() {
            let (key, value) = item.into_inner().map_err(|error| error.to_string())?;
            live += (key.len() + value.len() + ITEM_BYTES) as u64;
            items += 1;
            if stopped() {
                return Ok(Shrunk::Not);
            }
        }
        // Tables are compressed: what is left of them takes no more than they do, and no more than
        // its part of all entries.
        live = live.min(tables);
        let part = u128::from(tables) * u128::from(items) / u128::from(all.max(1));
        let gain = tables.saturating_sub(live.min(part as u64));
        if gain < GAIN_MIN.max(tables / 4) {
            return Ok(Shrunk::Small);
        }
        let waiting = self.keyspace.tree.active_memtable().size();
        let needed = waiting + TIMES * live;
        if self.room.check_last(needed).is_err() {
            return Ok(Shrunk::Not);
        }
        self.seal(stopped)?;
        if self.room.check_last(TIMES * live).is_err() || stopped() {
            return Ok(Shrunk::Not);
        }
        let merged = self.keyspace.major_compact();
        merged.map_err(|error| error.to_string())?;
        self.seal(stopped)?;
        let (folder, now) = (self.folder.display(), self.tables().0);
        tracing::info!(%folder, before = tables, now, "its disk is short of room: tables were merged");
        let gained = tables.saturating_sub(now);
        Ok(if gained < gain / 2 {
            Shrunk::InVain
        } else {
            Shrunk::Merged
        })
    }

    /// Brings what is in memory into a table, be it only the number of the last commit.
    fn seal(&self, stopped: &dyn Fn() -> bool) -> Result<(), String> {
        {
            let _writer = loop {
                // Who opens the engine again has the lock, and waits for this thread.
                match self.writer.try_lock_for(WRITER) {
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
    use crate::engine::room::MARGIN;
    use crate::engine::room::Space as Disk;
    use crate::{Batch, FjallKv, FjallOptions, OrderedKv, Space};

    const KEYS: Space = Space("keys");
    const TOTAL: u64 = 64 << 30;

    fn room(folder: &Path, free: u64) -> Arc<Room> {
        let measure = move |_: &Path| Ok(Disk { free, total: TOTAL });
        Arc::new(Room::measured(folder, 0, Box::new(measure)))
    }

    fn write(kv: &FjallKv, numbers: std::ops::Range<u64>, value: Option<&[u8]>) {
        for number in numbers {
            let key = number.to_be_bytes().to_vec();
            let changes = vec![(KEYS, key, value.map(<[u8]>::to_vec))];
            kv.write(Batch { changes }).unwrap();
        }
    }

    /// Bytes of all files below, but for journals and for copies, which are made beside the test.
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
    fn many_small_entries_count_as_what_they_take_with_their_filters() {
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
        kv.shrinker(room(folder.path(), 2 * MARGIN - 1))
            .keyspace
            .major_compact()
            .unwrap();
        fill(0..300_000, None);
        let mut looks = Looks::default();
        let before = bytes(folder.path());
        kv.shrinker(room(folder.path(), 2 * MARGIN - 1))
            .look(&mut looks, &|| false);
        let after = bytes(folder.path());
        assert!(
            looks.done.is_some() && after < before / 2,
            "{before} bytes became {after}"
        );
    }

    #[test]
    fn what_was_deleted_gives_its_room_back_where_room_is_short() {
        let folder = tempfile::tempdir().unwrap();
        let options = FjallOptions {
            memtable: 1 << 20,
            ..FjallOptions::default()
        };
        let kv = FjallKv::open(folder.path(), options).unwrap();
        let noise: Vec<u8> = (0..4000_u64).map(|n| (n * n % 251) as u8).collect();
        write(&kv, 0..4000, Some(&noise));
        kv.flush().unwrap();
        // One of the engine's levels is empty until it merges by itself.
        let full = kv
            .shrinker(room(folder.path(), 2 * MARGIN - 1))
            .keyspace
            .disk_space();
        assert!(full > 8 << 20, "{full}");
        write(&kv, 0..3900, None);
        let look = |free| {
            let mut looks = Looks::default();
            kv.shrinker(room(folder.path(), free))
                .look(&mut looks, &|| false);
            (looks.done.is_some(), bytes(folder.path()))
        };
        let (done, before) = look(2 * MARGIN);
        assert!(!done, "there is enough");
        let (done, _) = look(MARGIN / 4);
        assert!(!done, "there is no room for what is left");
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
