//! The background thread that keeps the second copy of the tables of an open engine (`copies.rs`).
//!
//! A pass copies the new tables, then the list that names them, then the file that says which list
//! counts; last it removes tables that the copied list does not name. So the copy is complete at
//! every moment.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, io};

use parking_lot::{Condvar, Mutex};

use super::compactor::{CompactionState, Compactor};
use super::disk_reserve::DiskReserve;
use crate::KvError;
use crate::files::{
    COPIES, CURRENT, CopyOutcome, DamagedFile, EngineFile, List, TABLES, Table, copy, forget_copy,
    list, mark_suspect, sum_of, table_path, trees, verify, whole_copy, write_atomically,
};
use crate::limits::{
    COPY_ATTEMPTS, COPY_CLOSE_TIMEOUT, COPY_INTERVAL, COPY_PIECE_BYTES, COPY_PIECE_TIME,
    PARTIAL_PASSES_MAX,
};

/// The outcome of a pass over the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassOutcome {
    /// The copy is up to date.
    Complete,
    /// Tables changed too fast, the disk was short of space, or the pass was stopped.
    Partial,
}

/// What a pass knows from earlier ones.
#[derive(Default)]
struct CopyProgress {
    /// Copies whose checksum was found right, whether a list names them yet or not.
    good: HashMap<PathBuf, u128>,
    /// The warning that was logged last.
    warned: Option<String>,
    /// Incomplete passes in a row.
    partial: u32,
}

/// Copies new tables while it lives, and has tables compacted when the disk is short of space.
pub(crate) struct Copier {
    task: Arc<CopyTask>,
    thread: Option<JoinHandle<()>>,
    abandoned: bool,
}

/// What the thread and its owner share.
struct CopyTask {
    folder: PathBuf,
    reserve: Arc<DiskReserve>,
    /// Locked for the length of a pass.
    progress: Mutex<CopyProgress>,
    /// Trees whose copy is damaged, each with the files that were reported.
    damaged: Mutex<HashMap<PathBuf, HashSet<PathBuf>>>,
    stopped: Mutex<bool>,
    stop: Condvar,
}

impl Copier {
    /// Starts the copier of an open engine.
    pub(crate) fn start(
        folder: &Path,
        reserve: Arc<DiskReserve>,
        compactor: Compactor,
    ) -> io::Result<Copier> {
        let task = Arc::new(CopyTask {
            folder: folder.to_path_buf(),
            reserve,
            progress: Mutex::default(),
            damaged: Mutex::default(),
            stopped: Mutex::default(),
            stop: Condvar::default(),
        });
        let thread = std::thread::Builder::new().name("weft-kv-copies".into());
        let running = Arc::clone(&task);
        Ok(Copier {
            thread: Some(thread.spawn(move || running.run(&compactor))?),
            task,
            abandoned: false,
        })
    }

    /// Makes the drop skip the last pass.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Brings the copy up to date now.
    pub(crate) fn copy_now(&self) -> io::Result<()> {
        for _ in 0..COPY_ATTEMPTS {
            if self.task.pass(&mut |_| true)? == PassOutcome::Complete {
                return Ok(());
            }
        }
        Err(io::Error::other(
            "tables come and go faster than they are copied",
        ))
    }

    /// Verifies a file. A damaged copy is made again by the next pass and reported once.
    pub(crate) fn verify(&self, file: &EngineFile) -> Result<(u64, Option<DamagedFile>), KvError> {
        let (read, damage) = verify(&self.task.folder, file)?;
        let Some(found) = &damage else {
            return Ok((read, None));
        };
        let Some(tree) = file.copied_tree() else {
            mark_suspect(&self.task.folder);
            return Ok((read, damage));
        };
        let mut damaged = self.task.damaged.lock();
        let reported = damaged.entry(tree.to_owned()).or_default();
        let is_new = reported.insert(found.path.clone());
        Ok((read, damage.filter(|_| is_new)))
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        *self.task.stopped.lock() = true;
        self.task.stop.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread logged its panic, if there was one.
            let _ = thread.join();
        }
        if self.abandoned || !self.task.folder.exists() {
            return;
        }
        // An engine that was open for seconds only has no copy yet, and a busy one lacks the copy
        // of its latest tables.
        let until = Instant::now() + COPY_CLOSE_TIMEOUT;
        if let Err(error) = self.task.pass(&mut |_| Instant::now() < until) {
            let folder = self.task.folder.display();
            tracing::warn!(%error, %folder, "the key-value engine's tables are not copied");
        }
    }
}

impl CopyTask {
    /// Waits; true when it is time to stop.
    fn wait(&self, time: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped && !time.is_zero() {
            self.stop.wait_for(&mut stopped, time);
        }
        *stopped
    }

    fn run(&self, compactor: &Compactor) {
        let mut compaction = CompactionState::default();
        while !self.wait(COPY_INTERVAL) {
            let mut piece_at = Instant::now();
            let mut go_on = |bytes: usize| {
                let least = COPY_PIECE_TIME.mul_f64(bytes as f64 / COPY_PIECE_BYTES as f64);
                let stopped = self.wait(least.saturating_sub(piece_at.elapsed()));
                piece_at = Instant::now();
                !stopped
            };
            let one = || {
                // Compaction comes first: tables that it removes need no copy.
                compactor.run_if_needed(&mut compaction, &|| *self.stopped.lock());
                self.pass(&mut go_on)
            };
            // A pass that panics is not the last one.
            let panicked = |_| Err(io::Error::other("it panicked"));
            let done = catch_unwind(AssertUnwindSafe(one)).unwrap_or_else(panicked);
            self.note(done);
        }
    }

    /// Counts incomplete passes, and logs a trouble when it begins.
    fn note(&self, done: io::Result<PassOutcome>) {
        let mut progress = self.progress.lock();
        progress.partial = match done {
            Ok(PassOutcome::Partial) => progress.partial + 1,
            Ok(PassOutcome::Complete) | Err(_) => 0,
        };
        let trouble = match done {
            Err(error) => Some(error.to_string()),
            Ok(_) if progress.partial >= PARTIAL_PASSES_MAX => {
                Some("the disk is short of space, or tables come and go too fast".to_owned())
            }
            Ok(_) => None,
        };
        if let Some(error) = trouble.as_ref().filter(|_| trouble != progress.warned) {
            let folder = self.folder.display();
            tracing::warn!(%error, %folder, "the key-value engine's tables are not copied");
        }
        progress.warned = trouble;
    }

    /// Brings the copy up to date, as long as `go_on` allows and the disk has space. The last of
    /// the space is not for copies, unless a pass frees more than it takes.
    fn pass(&self, go_on: &mut dyn FnMut(usize) -> bool) -> io::Result<PassOutcome> {
        let mut progress = self.progress.lock();
        let damaged = std::mem::take(&mut *self.damaged.lock());
        for tree in damaged.into_keys() {
            forget_copy(&self.folder, &tree)?;
            let copy = self.folder.join(COPIES).join(&tree);
            progress.good.retain(|path, _| !path.starts_with(&copy));
        }
        fs::create_dir_all(self.folder.join(COPIES))?;
        let (mut pass, mut failed) = (PassOutcome::Complete, None);
        for tree in trees(&self.folder)? {
            match self.copy_tree(&tree, &mut progress.good, go_on) {
                Ok(PassOutcome::Complete) => {}
                Ok(PassOutcome::Partial) => pass = PassOutcome::Partial,
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
    ) -> io::Result<PassOutcome> {
        let copy_folder = self.folder.join(COPIES);
        let (from, to) = (self.folder.join(tree), copy_folder.join(tree));
        let copied = whole_copy(&to);
        for _ in 0..COPY_ATTEMPTS {
            // The list's file is removed when there is a newer one.
            let Ok(now) = list(&from) else { continue };
            let Some(tables) = &now.tables else {
                return Ok(PassOutcome::Complete);
            };
            if copied.as_ref().is_some_and(|k| k.current == now.current) {
                return Ok(PassOutcome::Complete);
            }
            fs::create_dir_all(to.join(TABLES))?;
            // Unlisted copies go first: the new ones may need their space.
            remove_unlisted(&to, &[Some(&now), copied.as_ref()], good)?;
            let (mut new, old) = pending_bytes(&from, &to, tables, copied.as_ref(), good);
            let frees = new < old;
            let mut go_on = |bytes: usize| {
                let space = match self.reserve.check_growth() {
                    Err(_) if frees => self.reserve.check_reclaim(new),
                    checked => checked,
                };
                new = new.saturating_sub(bytes as u64);
                space.is_ok() && go_on(bytes)
            };
            if !go_on(0) {
                return Ok(PassOutcome::Partial);
            }
            let (mut vanished, mut damaged) = (false, None);
            for table in tables {
                let (from, to) = (table_path(&from, table), table_path(&to, table));
                if is_copied(&to, table, copied.as_ref(), good) {
                    continue;
                }
                match copy(&copy_folder, &from, &to, table.sum, &mut go_on) {
                    Ok(CopyOutcome::Done) => drop(good.insert(to, table.sum)),
                    Ok(CopyOutcome::Stopped) => return Ok(PassOutcome::Partial),
                    // The other tables are copied all the same.
                    Ok(CopyOutcome::Damaged) => damaged = Some(from),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => vanished = true,
                    Err(error) => return Err(error),
                }
            }
            let bytes = fs::read(from.join(&now.name));
            let Some(bytes) = bytes.ok().filter(|_| !vanished) else {
                continue;
            };
            if let Some(damaged) = damaged {
                mark_suspect(&self.folder);
                let what = format!("{} does not match its list", damaged.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            write_atomically(&copy_folder, &bytes, &to.join(&now.name))?;
            write_atomically(&copy_folder, &now.current, &to.join(CURRENT))?;
            remove_unlisted(&to, &[Some(&now)], good)?;
            return Ok(PassOutcome::Complete);
        }
        Ok(PassOutcome::Partial)
    }
}

/// Bytes of tables of a tree.
fn total_bytes<'a>(tree: &Path, tables: impl Iterator<Item = &'a Table>) -> u64 {
    let lengths = tables.map(|table| fs::metadata(table_path(tree, table)).map_or(0, |m| m.len()));
    lengths.sum()
}

/// Bytes of tables that are not copied yet, and of copies that become superfluous with them.
fn pending_bytes(
    from: &Path,
    to: &Path,
    tables: &[Table],
    copied: Option<&List>,
    good: &mut HashMap<PathBuf, u128>,
) -> (u64, u64) {
    let new = tables
        .iter()
        .filter(|table| !is_copied(&table_path(to, table), table, copied, good));
    let new = total_bytes(from, new);
    let listed = copied.iter().flat_map(|list| list.tables.iter().flatten());
    let old = listed.filter(|table| !tables.contains(table));
    (new, total_bytes(to, old))
}

/// Whether a table is copied. A copy that no list names may be left of an incomplete pass.
fn is_copied(
    path: &PathBuf,
    table: &Table,
    copied: Option<&List>,
    good: &mut HashMap<PathBuf, u128>,
) -> bool {
    let mut listed = copied.iter().flat_map(|list| list.tables.iter().flatten());
    if listed.any(|known| known == table) || good.get(path) == Some(&table.sum) {
        return path.exists();
    }
    let is_right = path.exists() && sum_of(path, |_| Ok(())).is_ok_and(|sum| sum == table.sum);
    if is_right {
        good.insert(path.clone(), table.sum);
    }
    is_right
}

/// Removes copies of tables that none of these lists names, and all other lists.
fn remove_unlisted(
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
