//! A second copy of the engine's tables: what tables hold is nowhere else, and a bit that flips in one would cost the engine.
//!
//! Tables are never changed once they are written, and the list that names them has the checksum of each (`lists.rs`). So a copy of
//! them is made in the background, in a folder beside them, and whatever is not what the list says when the engine is opened
//! is put back from there: a table with the same checksum is the same table. What is taken away is kept, too.
//!
//! The list itself is copied with them. One that is put back may be older than the one that was lost, and name older tables; they are
//! in the copy, which is always whole. Whether anything that was synced is missing then is told by the numbers of the commits, as ever
//! (`loss.rs`).

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::KvError;
use crate::lists::{CURRENT, List, TABLES, Table, list, sum_of, trees};
use crate::room::Room;

/// The folder of copies; fjall looks at nothing of that name.
const COPIES: &str = "weft.copies";
/// The folder of files that were not what they must be.
const DAMAGED: &str = "weft.damaged";
/// A copy that is being made.
const UNFINISHED: &str = "unfinished";
/// The file that tells fjall its own version; it never changes.
const VERSION: &str = "version";
/// Bytes of tables that an opening reads; whether the rest is right is found out by [`verify`].
const OPENING_MAX: u64 = 4 << 30;
/// How often it is looked whether there are new tables.
const PERIOD: Duration = Duration::from_secs(2);
/// Copying takes at least this long for each piece: 256 MiB/s.
const PIECE: (usize, Duration) = (1 << 20, Duration::from_millis(4));
/// How often a list is read again because its tables went while they were copied.
const TRIES: u32 = 8;

/// A file of the engine's tables, or of their copy, that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFile {
    /// The file.
    pub path: PathBuf,
    /// What becomes of it.
    pub mend: Mend,
}

/// What a damaged file is mended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Its copy, when the engine is opened the next time.
    Copy,
    /// It is a copy, which is made anew.
    Anew,
    /// Nothing.
    Nothing,
}

impl std::fmt::Display for BadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let then = match self.mend {
            Mend::Copy => {
                "the copy of it is good, and the next start of its node puts that in its place"
            }
            Mend::Anew => "it is only a copy, which is made anew",
            Mend::Nothing => "there is no good copy of it",
        };
        write!(f, "{} is not what was written; {then}", self.path.display())
    }
}

/// What is wrong in a folder, and what it would be mended with.
struct Bad {
    /// In the engine's folder, and in the copies.
    path: PathBuf,
    good: Option<Good>,
}

enum Good {
    /// The copy of one file.
    Table(u128),
    /// All of a tree's.
    Tree(List),
    Version,
}

/// What an opening would find, and what is wrong with the copies; nothing is changed. `pace` hears of what was read.
///
/// # Errors
/// When the files cannot be looked for, not when they are damaged.
pub(crate) fn verify(folder: &Path, pace: &mut dyn FnMut(usize)) -> Result<Vec<BadFile>, KvError> {
    let bad = look(folder, u64::MAX, pace)?;
    let mut told: Vec<BadFile> = bad.iter().map(|bad| bad.told(folder)).collect();
    let copies = folder.join(COPIES);
    let trees = trees(&copies).map_err(|error| KvError::open(&copies, &error))?;
    for tree in trees.iter().map(|tree| copies.join(tree)) {
        let mut tell = |path: PathBuf| {
            let mend = Mend::Anew;
            told.push(BadFile { path, mend });
        };
        let Some(list) = whole_copy(&tree) else {
            tell(tree.join(CURRENT));
            continue;
        };
        for table in list.tables.iter().flatten() {
            let path = tree.join(TABLES).join(table.id.to_string());
            if !is(&path, table.sum, pace) {
                tell(path);
            }
        }
    }
    Ok(told)
}

/// Puts copies in the place of files that are not what they must be; before the engine is opened.
///
/// # Errors
/// [`KvError::Damaged`] where there is no good copy, unless `accept_loss`; nothing is changed then.
pub(crate) fn heal(folder: &Path, accept_loss: bool) -> Result<(), KvError> {
    let bad = look(folder, OPENING_MAX, &mut |_| ())?;
    // A list without a copy is somebody else's finding (`tables.rs`): it may be of an engine that was never used.
    let mut hopeless = bad
        .iter()
        .filter(|bad| bad.good.is_none() && !bad.is_list());
    if !accept_loss && let Some(bad) = hopeless.next() {
        let what = "it is not what was written, and there is no good copy of it";
        return Err(KvError::damaged(&folder.join(&bad.path), what.to_owned()));
    }
    for bad in &bad {
        let path = folder.join(&bad.path);
        let file = path.display();
        bad.mend(folder)
            .map_err(|error| KvError::open(&path, &error))?;
        if bad.good.is_some() {
            tracing::warn!(%file, "it was damaged, and is put back from its copy");
        } else {
            tracing::warn!(%file, "it is damaged, and there is no copy of it");
        }
    }
    Ok(())
}

/// Looks at no more tables than have `most` bytes together.
fn look(folder: &Path, most: u64, pace: &mut dyn FnMut(usize)) -> Result<Vec<Bad>, KvError> {
    let unread = |error: io::Error| KvError::open(folder, &error);
    let copies = folder.join(COPIES);
    let mut bad = Vec::new();
    if let Ok(copy) = fs::read(copies.join(VERSION))
        && fs::read(folder.join(VERSION)).ok().as_ref() != Some(&copy)
    {
        bad.push(Bad {
            path: VERSION.into(),
            good: Some(Good::Version),
        });
    }
    let mut all: Vec<PathBuf> = trees(folder).map_err(unread)?;
    let copied = trees(&copies).map_err(unread)?;
    all.extend(
        copied
            .into_iter()
            .filter(|tree| !all.contains(tree))
            .collect::<Vec<_>>(),
    );
    let mut left = most;
    for tree in all {
        let kept = whole_copy(&copies.join(&tree));
        let cut = |list: &List| {
            let whole = kept.as_ref().map_or(0, |kept| kept.current.len());
            list.current.len() < whole
        };
        let tables = match list(&folder.join(&tree)) {
            Ok(list) if !cut(&list) => list.tables,
            Ok(_) | Err(KvError::Damaged { .. }) => {
                let tables = kept.as_ref().and_then(|kept| kept.tables.clone());
                bad.push(Bad {
                    path: tree.join(CURRENT),
                    good: kept.map(Good::Tree),
                });
                tables
            }
            Err(other) => return Err(other),
        };
        for table in tables.unwrap_or_default() {
            let path = tree.join(TABLES).join(table.id.to_string());
            let own = folder.join(&path);
            let length = fs::metadata(&own).map(|m| m.len()).ok();
            if length.is_some_and(|length| length > left) {
                continue;
            }
            left -= length.unwrap_or(0);
            if is(&own, table.sum, pace) || !names(&folder.join(&tree), &table) {
                continue;
            }
            let good = is(&copies.join(&path), table.sum, pace);
            bad.push(Bad {
                path,
                good: good.then_some(Good::Table(table.sum)),
            });
        }
    }
    Ok(bad)
}

/// Whether a tree's list names a table still: an engine that is open removes those that it does not need.
fn names(tree: &Path, table: &Table) -> bool {
    match list(tree) {
        Ok(now) => now.tables.iter().flatten().any(|named| named == table),
        Err(_) => true,
    }
}

/// Whether a file can be read and has this checksum.
fn is(path: &Path, sum: u128, pace: &mut dyn FnMut(usize)) -> bool {
    let found = sum_of(path, |piece| {
        pace(piece.len());
        Ok(())
    });
    found.is_ok_and(|found| found == sum)
}

/// The list of a tree's copy.
fn whole_copy(tree: &Path) -> Option<List> {
    list(tree).ok().filter(|list| list.tables.is_some())
}

impl Bad {
    fn told(&self, folder: &Path) -> BadFile {
        let mend = if self.good.is_some() {
            Mend::Copy
        } else {
            Mend::Nothing
        };
        BadFile {
            path: folder.join(&self.path),
            mend,
        }
    }

    fn is_list(&self) -> bool {
        self.path.ends_with(CURRENT)
    }

    fn mend(&self, folder: &Path) -> io::Result<()> {
        let copies = folder.join(COPIES);
        match &self.good {
            None => Ok(()),
            Some(Good::Version) => {
                set_aside(folder, &self.path)?;
                let bytes = fs::read(copies.join(VERSION))?;
                put(&copies, &bytes, &folder.join(VERSION))
            }
            Some(Good::Table(sum)) => {
                set_aside(folder, &self.path)?;
                let to = folder.join(&self.path);
                copy(&copies, &copies.join(&self.path), &to, *sum, &mut |_| true).map(drop)
            }
            Some(Good::Tree(list)) => {
                let Some(tree) = self.path.parent() else {
                    return Ok(());
                };
                let from = copies.join(tree);
                // Tables that the list does not name are removed by whoever opens it.
                set_aside_all(folder, tree)?;
                let lists = [(list.name.as_str(), fs::read(from.join(&list.name))?)];
                let current = (CURRENT, list.current.clone());
                for (name, bytes) in lists.into_iter().chain([current]) {
                    put(&copies, &bytes, &folder.join(tree).join(name))?;
                }
                Ok(())
            }
        }
    }
}

/// Moves a file, if it is there, to where damaged ones are kept.
fn set_aside(folder: &Path, path: &Path) -> io::Result<()> {
    let to = free_name(&folder.join(DAMAGED).join(path))?;
    match fs::rename(folder.join(path), to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Keeps all that a tree's folder has, its tables by another link.
fn set_aside_all(folder: &Path, tree: &Path) -> io::Result<()> {
    let names = |path: &Path| -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(folder.join(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let files = entries.filter(|e| e.as_ref().map_or(true, |e| e.path().is_file()));
        files
            .map(|entry| Ok(path.join(entry?.file_name())))
            .collect()
    };
    for list in names(tree)? {
        set_aside(folder, &list)?;
    }
    for table in names(&tree.join(TABLES))? {
        let to = free_name(&folder.join(DAMAGED).join(&table))?;
        if fs::hard_link(folder.join(&table), &to).is_err() {
            fs::copy(folder.join(&table), &to)?;
        }
    }
    fs::create_dir_all(folder.join(tree).join(TABLES))
}

/// The path, or one like it that is not in use; its folder is made.
fn free_name(path: &Path) -> io::Result<PathBuf> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let name = |n: u32| match n {
        0 => path.to_path_buf(),
        n => path.with_added_extension(n.to_string()),
    };
    let free = (0..=u32::MAX).map(name).find(|path| !path.exists());
    free.ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

/// Copies a file that has this checksum, unless `go_on` says to stop; false: it was stopped.
fn copy(
    copies: &Path,
    from: &Path,
    to: &Path,
    sum: u128,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> io::Result<bool> {
    let unfinished = copies.join(UNFINISHED);
    let mut file = File::create(&unfinished)?;
    let mut stopped = false;
    let found = sum_of(from, |piece| {
        stopped = stopped || !go_on(piece.len());
        if stopped {
            return Err(io::ErrorKind::Interrupted.into());
        }
        file.write_all(piece)
    });
    if stopped {
        return Ok(false);
    }
    if found? != sum {
        let what = format!("{} is not what its list says", from.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    file.sync_all()?;
    // Nobody reads it soon.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    install(&unfinished, to)?;
    Ok(true)
}

/// Writes a small file; it is there wholly or not at all.
fn put(copies: &Path, bytes: &[u8], to: &Path) -> io::Result<()> {
    let unfinished = copies.join(UNFINISHED);
    let mut file = File::create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    install(&unfinished, to)
}

fn install(unfinished: &Path, to: &Path) -> io::Result<()> {
    fs::rename(unfinished, to)?;
    to.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// What a look for new tables came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// The copy is that of this moment.
    Complete,
    /// Tables came and went too fast, or it was stopped.
    Partial,
}

/// Makes the copy that of now.
fn refresh(folder: &Path, go_on: &mut dyn FnMut(usize) -> bool) -> io::Result<Pass> {
    let copies = folder.join(COPIES);
    fs::create_dir_all(&copies)?;
    let version = fs::read(folder.join(VERSION))?;
    if fs::read(copies.join(VERSION)).ok().as_ref() != Some(&version) {
        put(&copies, &version, &copies.join(VERSION))?;
    }
    let mut pass = Pass::Complete;
    for tree in trees(folder)? {
        if refresh_tree(folder, &copies, &tree, go_on)? == Pass::Partial {
            pass = Pass::Partial;
        }
    }
    Ok(pass)
}

fn refresh_tree(
    folder: &Path,
    copies: &Path,
    tree: &Path,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> io::Result<Pass> {
    let (from, to) = (folder.join(tree), copies.join(tree));
    let kept = whole_copy(&to);
    for _ in 0..TRIES {
        // Its file goes when there is a newer one.
        let Ok(now) = list(&from) else { continue };
        let Some(tables) = &now.tables else {
            return Ok(Pass::Complete);
        };
        if kept
            .as_ref()
            .is_some_and(|kept| kept.current == now.current)
        {
            return Ok(Pass::Complete);
        }
        fs::create_dir_all(to.join(TABLES))?;
        let has = |table: &Table| {
            let known = kept.iter().flat_map(|kept| kept.tables.iter().flatten());
            let known = known.into_iter().any(|t| t == table);
            known && to.join(TABLES).join(table.id.to_string()).exists()
        };
        let mut went = false;
        for table in tables.iter().filter(|table| !has(table)) {
            let name = Path::new(TABLES).join(table.id.to_string());
            match copy(copies, &from.join(&name), &to.join(&name), table.sum, go_on) {
                Ok(true) => {}
                Ok(false) => return Ok(Pass::Partial),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    went = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let Ok(bytes) = fs::read(from.join(&now.name)) else {
            continue;
        };
        if went {
            continue;
        }
        put(copies, &bytes, &to.join(&now.name))?;
        put(copies, &now.current, &to.join(CURRENT))?;
        remove_others(&to, &now, tables)?;
        return Ok(Pass::Complete);
    }
    Ok(Pass::Partial)
}

/// Removes copies that the list does not name.
fn remove_others(tree: &Path, list: &List, tables: &[Table]) -> io::Result<()> {
    for entry in fs::read_dir(tree)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.path().is_file() && name != *list.name && name != CURRENT {
            fs::remove_file(entry.path())?;
        }
    }
    let named: HashSet<String> = tables.iter().map(|table| table.id.to_string()).collect();
    for entry in fs::read_dir(tree.join(TABLES))? {
        let entry = entry?;
        if !entry
            .file_name()
            .to_str()
            .is_some_and(|name| named.contains(name))
        {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Copies new tables as long as it lives.
pub(crate) struct Copier {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    folder: PathBuf,
    room: Arc<Room>,
    /// One pass at a time.
    pass: Mutex<()>,
    stopped: Mutex<bool>,
    stop: Condvar,
}

impl Copier {
    /// For an engine that is open.
    pub(crate) fn start(folder: &Path, room: Arc<Room>) -> io::Result<Copier> {
        let shared = Arc::new(Shared {
            folder: folder.to_path_buf(),
            room,
            pass: Mutex::default(),
            stopped: Mutex::default(),
            stop: Condvar::default(),
        });
        let thread = std::thread::Builder::new().name("weft-kv-copies".into());
        let work = Arc::clone(&shared);
        Ok(Copier {
            thread: Some(thread.spawn(move || work.run())?),
            shared,
        })
    }

    /// Makes the copy that of now, at once.
    pub(crate) fn copy_now(&self) -> io::Result<()> {
        while self.shared.refresh(&mut |_| true)? == Pass::Partial {}
        Ok(())
    }

    /// Looks at all tables and all copies, at most `rate` bytes a second; damaged copies are made anew soon.
    pub(crate) fn verify(&self, rate: u64) -> Result<Vec<BadFile>, KvError> {
        let (started, mut read) = (Instant::now(), 0_u64);
        let mut pace = |bytes: usize| {
            read += bytes as u64;
            let due = Duration::from_secs_f64(read as f64 / rate.max(1) as f64);
            // An engine that is dropped meanwhile does not wait.
            self.shared.wait(due.saturating_sub(started.elapsed()));
        };
        let folder = &self.shared.folder;
        // The copies stay as they are meanwhile.
        let _alone = self.shared.pass.lock();
        let bad = verify(folder, &mut pace)?;
        for bad in bad.iter().filter(|bad| bad.mend == Mend::Anew) {
            // Without its list nothing of a copy counts.
            let tree = bad
                .path
                .ancestors()
                .find(|path| path.join(CURRENT).exists());
            let removed = tree.map_or(Ok(()), |tree| fs::remove_file(tree.join(CURRENT)));
            removed.map_err(|error| KvError::open(&bad.path, &error))?;
        }
        Ok(bad)
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
    }
}

impl Shared {
    fn refresh(&self, go_on: &mut dyn FnMut(usize) -> bool) -> io::Result<Pass> {
        let _alone = self.pass.lock();
        refresh(&self.folder, go_on)
    }

    /// True when it is time to stop.
    fn wait(&self, time: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped && !time.is_zero() {
            self.stop.wait_for(&mut stopped, time);
        }
        *stopped
    }

    fn run(&self) {
        let mut said = None;
        while !self.wait(PERIOD) {
            // The last room is not for copies.
            if self.room.check().is_err() {
                continue;
            }
            let mut last = Instant::now();
            let mut go_on = |bytes: usize| {
                let least = PIECE.1.mul_f64(bytes as f64 / PIECE.0 as f64);
                let stopped = self.wait(least.saturating_sub(last.elapsed()));
                last = Instant::now();
                !stopped
            };
            match self.refresh(&mut go_on) {
                Ok(_) => said = None,
                Err(error) => {
                    let error = error.to_string();
                    if said.as_ref() != Some(&error) {
                        let folder = self.folder.display();
                        tracing::warn!(%error, %folder, "the key-value engine's tables are not copied");
                    }
                    said = Some(error);
                }
            }
        }
    }
}
