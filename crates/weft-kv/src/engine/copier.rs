//! Makes the second copy of the tables of an engine that is open (`copies.rs`).
//!
//! A pass copies the tables that are new, then the list that names them, then what says which list
//! counts; tables that the copied list does not name go last. So the copy is whole at each moment.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, io};

use parking_lot::{Condvar, Mutex};

use super::room::Room;
use super::shrink::{Looks, Shrinker};
use crate::KvError;
use crate::files::{
    COPIES, CURRENT, Copied, DamagedFile, EngineFile, List, TABLES, Table, copies, copy, list, put,
    sum_of, table_path, trees, whole_copy,
};

/// How often it is looked whether there are new tables.
const PERIOD: Duration = Duration::from_secs(2);
/// Copying takes at least this long for each piece: 256 MiB/s.
const PIECE: (usize, Duration) = (1 << 20, Duration::from_millis(4));
/// How long the last pass may take, when the engine is closed.
const LAST_MAX: Duration = Duration::from_secs(10);
/// How often a list is read again because its tables went while they were copied.
const TRIES: u32 = 8;
/// After so many passes that came to no end this is said.
const PARTIAL_MAX: u32 = 300;

/// What a look for new tables came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// The copy is that of this moment.
    Complete,
    /// Tables came and went too fast, there was no room, or it was stopped.
    Partial,
}

/// What a pass knows from those before.
#[derive(Default)]
struct Work {
    /// Copies that have the checksum that they must, whether a list names them yet or not.
    good: HashMap<PathBuf, u128>,
    /// What was said last.
    said: Option<String>,
    /// Passes in a row that came to no end.
    partial: u32,
}

/// Copies new tables as long as it lives, and has them merged where there is no room.
pub(crate) struct Copier {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    abandoned: bool,
}

struct Shared {
    folder: PathBuf,
    room: Arc<Room>,
    /// Held for a pass.
    work: Mutex<Work>,
    /// Trees of which the copy is damaged, and the files of it that were told.
    renew: Mutex<HashMap<PathBuf, HashSet<PathBuf>>>,
    stopped: Mutex<bool>,
    stop: Condvar,
}

impl Copier {
    /// For an engine that is open.
    pub(crate) fn start(folder: &Path, room: Arc<Room>, shrinker: Shrinker) -> io::Result<Copier> {
        let shared = Arc::new(Shared {
            folder: folder.to_path_buf(),
            room,
            work: Mutex::default(),
            renew: Mutex::default(),
            stopped: Mutex::default(),
            stop: Condvar::default(),
        });
        let thread = std::thread::Builder::new().name("weft-kv-copies".into());
        let work = Arc::clone(&shared);
        Ok(Copier {
            thread: Some(thread.spawn(move || work.run(&shrinker))?),
            shared,
            abandoned: false,
        })
    }

    /// Makes no last pass when it is dropped.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Makes the copy that of now, at once.
    pub(crate) fn copy_now(&self) -> io::Result<()> {
        for _ in 0..TRIES {
            if self.shared.pass(&mut |_| true)? == Pass::Complete {
                return Ok(());
            }
        }
        Err(io::Error::other(
            "tables come and go faster than they are copied",
        ))
    }

    /// Verifies a file; a damaged copy is made anew soon, which is told once.
    pub(crate) fn verify(&self, file: &EngineFile) -> Result<(u64, Option<DamagedFile>), KvError> {
        let (read, bad) = copies::verify(&self.shared.folder, file)?;
        let Some(found) = &bad else {
            return Ok((read, None));
        };
        let Some(tree) = file.copied_tree() else {
            copies::suspect(&self.shared.folder);
            return Ok((read, bad));
        };
        let mut renew = self.shared.renew.lock();
        let known = renew.entry(tree.to_owned()).or_default();
        Ok((
            read,
            known.insert(found.path.clone()).then_some(bad).flatten(),
        ))
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        *self.shared.stopped.lock() = true;
        self.shared.stop.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of it was said when it came.
            let _ = thread.join();
        }
        if self.abandoned || !self.shared.folder.exists() {
            return;
        }
        // An engine that was open for seconds only has no copy yet, nor one that was busy of what
        // came last.
        let until = Instant::now() + LAST_MAX;
        if let Err(error) = self.shared.pass(&mut |_| Instant::now() < until) {
            let folder = self.shared.folder.display();
            tracing::warn!(%error, %folder, "the key-value engine's tables are not copied");
        }
    }
}

impl Shared {
    /// True when it is time to stop.
    fn wait(&self, time: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped && !time.is_zero() {
            self.stop.wait_for(&mut stopped, time);
        }
        *stopped
    }

    fn run(&self, shrinker: &Shrinker) {
        let mut looks = Looks::default();
        while !self.wait(PERIOD) {
            let mut piece_at = Instant::now();
            let mut go_on = |bytes: usize| {
                let least = PIECE.1.mul_f64(bytes as f64 / PIECE.0 as f64);
                let stopped = self.wait(least.saturating_sub(piece_at.elapsed()));
                piece_at = Instant::now();
                !stopped
            };
            let one = || {
                // What is merged away is not copied.
                shrinker.look(&mut looks, &|| *self.stopped.lock());
                self.pass(&mut go_on)
            };
            // One that panics is not the last.
            let panicked = |_| Err(io::Error::other("it panicked"));
            let done = catch_unwind(AssertUnwindSafe(one)).unwrap_or_else(panicked);
            let mut work = self.work.lock();
            work.partial = match done {
                Ok(Pass::Partial) => work.partial + 1,
                _ => 0,
            };
            let trouble = match done {
                Err(error) => Some(error.to_string()),
                Ok(_) if work.partial >= PARTIAL_MAX => {
                    Some("there is no room, or they come and go too fast".to_owned())
                }
                Ok(_) => None,
            };
            if let Some(error) = trouble.as_ref().filter(|_| trouble != work.said) {
                let folder = self.folder.display();
                tracing::warn!(%error, %folder, "the key-value engine's tables are not copied");
            }
            work.said = trouble;
        }
    }

    /// Makes the copy that of now, as long as `go_on` lets it and there is room: the last is not
    /// for copies, unless there is more of them that goes then.
    fn pass(&self, go_on: &mut dyn FnMut(usize) -> bool) -> io::Result<Pass> {
        let mut work = self.work.lock();
        let damaged = std::mem::take(&mut *self.renew.lock());
        for tree in damaged.into_keys() {
            copies::forget_copy(&self.folder, &tree)?;
            let copy = self.folder.join(COPIES).join(&tree);
            work.good.retain(|path, _| !path.starts_with(&copy));
        }
        fs::create_dir_all(self.folder.join(COPIES))?;
        let (mut pass, mut failed) = (Pass::Complete, None);
        for tree in trees(&self.folder)? {
            match self.copy_tree(&tree, &mut work.good, go_on) {
                Ok(Pass::Complete) => {}
                Ok(Pass::Partial) => pass = Pass::Partial,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(pass), Err)
    }

    fn copy_tree(
        &self,
        tree: &Path,
        good: &mut HashMap<PathBuf, u128>,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> io::Result<Pass> {
        let copies = self.folder.join(COPIES);
        let (from, to) = (self.folder.join(tree), copies.join(tree));
        let kept = whole_copy(&to);
        for _ in 0..TRIES {
            // Its file goes when there is a newer one.
            let Ok(now) = list(&from) else { continue };
            let Some(tables) = &now.tables else {
                return Ok(Pass::Complete);
            };
            if kept.as_ref().is_some_and(|k| k.current == now.current) {
                return Ok(Pass::Complete);
            }
            fs::create_dir_all(to.join(TABLES))?;
            // First what nobody needs: it may be the room that the others lack.
            remove_others(&to, &[Some(&now), kept.as_ref()], good)?;
            let (mut new, old) = weigh(&from, &to, tables, kept.as_ref(), good);
            let gains = new < old;
            let mut go_on = |bytes: usize| {
                let room = match self.room.check() {
                    Err(_) if gains => self.room.check_last(new),
                    asked => asked,
                };
                new = new.saturating_sub(bytes as u64);
                room.is_ok() && go_on(bytes)
            };
            if !go_on(0) {
                return Ok(Pass::Partial);
            }
            let (mut went, mut damaged) = (false, None);
            for table in tables {
                let (from, to) = (table_path(&from, table), table_path(&to, table));
                if has(&to, table, kept.as_ref(), good) {
                    continue;
                }
                match copy(&copies, &from, &to, table.sum, &mut go_on) {
                    Ok(Copied::Done) => drop(good.insert(to, table.sum)),
                    Ok(Copied::Stopped) => return Ok(Pass::Partial),
                    // The others are copied all the same.
                    Ok(Copied::Damaged) => damaged = Some(from),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => went = true,
                    Err(error) => return Err(error),
                }
            }
            let bytes = fs::read(from.join(&now.name));
            let Some(bytes) = bytes.ok().filter(|_| !went) else {
                continue;
            };
            if let Some(damaged) = damaged {
                copies::suspect(&self.folder);
                let what = format!("{} is not what its list says", damaged.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            put(&copies, &bytes, &to.join(&now.name))?;
            put(&copies, &now.current, &to.join(CURRENT))?;
            remove_others(&to, &[Some(&now)], good)?;
            return Ok(Pass::Complete);
        }
        Ok(Pass::Partial)
    }
}

/// Bytes of tables of a tree.
fn bytes<'a>(tree: &Path, tables: impl Iterator<Item = &'a Table>) -> u64 {
    let lengths = tables.map(|table| fs::metadata(table_path(tree, table)).map_or(0, |m| m.len()));
    lengths.sum()
}

/// Bytes of tables that are not copied yet, and of copies that nobody needs once they are.
fn weigh(
    from: &Path,
    to: &Path,
    tables: &[Table],
    kept: Option<&List>,
    good: &mut HashMap<PathBuf, u128>,
) -> (u64, u64) {
    let new = tables
        .iter()
        .filter(|table| !has(&table_path(to, table), table, kept, good));
    let new = bytes(from, new);
    let copied = kept.iter().flat_map(|kept| kept.tables.iter().flatten());
    let old = copied.filter(|table| !tables.contains(table));
    (new, bytes(to, old))
}

/// Whether a table is copied. One that no list of copies names may be from a pass that did not end.
fn has(
    path: &PathBuf,
    table: &Table,
    kept: Option<&List>,
    good: &mut HashMap<PathBuf, u128>,
) -> bool {
    let mut listed = kept.iter().flat_map(|kept| kept.tables.iter().flatten());
    if listed.any(|known| known == table) || good.get(path) == Some(&table.sum) {
        return path.exists();
    }
    let copied = path.exists() && sum_of(path, |_| Ok(())).is_ok_and(|sum| sum == table.sum);
    if copied {
        good.insert(path.clone(), table.sum);
    }
    copied
}

/// Removes copies that none of these lists names, and other lists.
fn remove_others(
    tree: &Path,
    lists: &[Option<&List>],
    good: &mut HashMap<PathBuf, u128>,
) -> io::Result<()> {
    let lists: Vec<&List> = lists.iter().copied().flatten().collect();
    for entry in fs::read_dir(tree)? {
        let entry = entry?;
        let name = entry.file_name();
        let named = lists.iter().any(|list| name == *list.name) || name == CURRENT;
        if entry.path().is_file() && !named {
            fs::remove_file(entry.path())?;
        }
    }
    let tables = lists.iter().flat_map(|list| list.tables.iter().flatten());
    let named: HashSet<PathBuf> = tables.map(|table| table_path(tree, table)).collect();
    for entry in fs::read_dir(tree.join(TABLES))? {
        let path = entry?.path();
        if !named.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    good.retain(|path, _| !path.starts_with(tree) || named.contains(path));
    Ok(())
}
