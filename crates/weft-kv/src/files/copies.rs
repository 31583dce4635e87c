//! A second copy of the engine's tables: what tables hold is nowhere else, and a bit that flips in
//! one would cost the engine.
//!
//! Tables are never changed once they are written, and the list that names them has the checksum of
//! each (`lists.rs`). So a copy of them is made in the background, in a folder beside them
//! (`copier.rs`), and whatever is not what the list says when the engine is opened is put back from
//! there: a table with the same checksum is the same table. What is taken away is kept, too.
//!
//! The list itself is copied with them. One that is put back may be older than the one that was
//! lost, and name older tables; they are in the copy, which is always whole. Whether anything that
//! was synced is missing then is told by the numbers of the commits, as ever (`loss.rs`).

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::lists::{CURRENT, EIO, List, TABLES, Table, list, sum_of, trees};
use crate::KvError;

/// The folder of copies; fjall looks at nothing of that name.
pub(crate) const COPIES: &str = "weft.copies";
/// The folder of files that were not what they must be.
const DAMAGED: &str = "weft.damaged";
/// A copy that is being made.
const UNFINISHED: &str = "unfinished";
/// Says that something was found that the next opening must look for, whatever it costs.
const SUSPECT: &str = "weft.suspect";
/// The file that tells fjall its own version, and what it holds in this one.
const VERSION: (&str, &[u8; 4]) = ("version", b"FJL\x03");
/// Bytes of tables that an opening reads; whether the rest is right is found out by whoever
/// verifies it.
const OPENING_MAX: u64 = 4 << 30;

/// A file of the engine's tables, or of their copy, that can be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFile {
    /// The tree's folder, in the engine's.
    tree: PathBuf,
    /// Absent: the tree's list.
    table: Option<Table>,
    /// The copy, not the file itself.
    copy: bool,
}

/// A file of the engine's tables, or of their copy, that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFile {
    /// The file.
    pub path: PathBuf,
    /// What becomes of it.
    pub remedy: Remedy,
}

/// What a damaged file is mended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Its copy, when the engine is opened the next time.
    RestoreCopy,
    /// It is a copy, which is made anew by an engine that is open.
    Recopy,
    /// Nothing.
    None,
}

impl std::fmt::Display for DamagedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let then = match self.remedy {
            Remedy::RestoreCopy => {
                "the copy of it is good, and the next start of its node puts that in its place"
            }
            Remedy::Recopy => "it is only a copy, which is made anew",
            Remedy::None => "there is no good copy of it",
        };
        write!(f, "{} is not what was written; {then}", self.path.display())
    }
}

/// What is wrong in a folder, and what it would be mended with.
struct Bad {
    /// In the engine's folder.
    path: PathBuf,
    good: Option<Good>,
}

enum Good {
    /// The copy of one file.
    Table(u128),
    /// The list of a tree's copy.
    Tree(List),
    Version,
}

/// All that can be verified in a folder.
///
/// # Errors
/// When its folders cannot be read.
pub(crate) fn files(folder: &Path) -> Result<Vec<EngineFile>, KvError> {
    let (own, copies) = (files_of(folder, false)?, files_of(folder, true)?);
    Ok([own, copies].concat())
}

/// The files of the trees, or of their copies.
fn files_of(folder: &Path, copy: bool) -> Result<Vec<EngineFile>, KvError> {
    let base = base(folder, copy);
    let mut all = Vec::new();
    for tree in trees(&base).map_err(|error| KvError::open(&base, &error))? {
        let tables = list(&base.join(&tree)).ok().and_then(|list| list.tables);
        let tables = tables.into_iter().flatten().map(Some);
        all.extend([None].into_iter().chain(tables).map(|table| EngineFile {
            tree: tree.clone(),
            table,
            copy,
        }));
    }
    Ok(all)
}

fn base(folder: &Path, copy: bool) -> PathBuf {
    if copy {
        folder.join(COPIES)
    } else {
        folder.to_path_buf()
    }
}

impl EngineFile {
    /// Of a copy, its tree.
    pub(crate) fn copied_tree(&self) -> Option<&Path> {
        self.copy.then_some(&*self.tree)
    }
}

/// Verifies a file, also of an engine that is open; answers how many bytes were read, and what is
/// wrong.
///
/// # Errors
/// When it cannot be read for another reason than damage.
pub(crate) fn verify(
    folder: &Path,
    file: &EngineFile,
) -> Result<(u64, Option<DamagedFile>), KvError> {
    let tree = base(folder, file.copy).join(&file.tree);
    let copied = folder.join(COPIES).join(&file.tree);
    if file.copy && !tree.join(CURRENT).exists() {
        // It is being made anew.
        return Ok((0, None));
    }
    let (path, read, right) = match &file.table {
        None => {
            let kept = whole_copy(&copied);
            let right = sound_list(&tree, kept.as_ref())?.is_some();
            (tree.join(CURRENT), 0, right)
        }
        Some(table) => {
            let path = table_path(&tree, table);
            let read = fs::metadata(&path).map_or(0, |m| m.len());
            let right = is(&path, table.sum)? || !names(&tree, table);
            (path, read, right)
        }
    };
    if right {
        return Ok((read, None));
    }
    let good = match &file.table {
        None => whole_copy(&copied).is_some(),
        Some(table) => is(&table_path(&copied, table), table.sum)?,
    };
    let remedy = match good {
        _ if file.copy => Remedy::Recopy,
        true => Remedy::RestoreCopy,
        false => Remedy::None,
    };
    Ok((read, Some(DamagedFile { path, remedy })))
}

/// All that is wrong in a folder of which no engine is open: with what an opening would mend, and
/// with the copies.
pub(crate) fn verify_all(folder: &Path) -> Result<Vec<DamagedFile>, KvError> {
    let mut bad = look(folder, u64::MAX)?;
    // A list that is put back may be older: tables that were merged since come back with it, and
    // are no damage of their own.
    let lists: Vec<PathBuf> = bad
        .iter()
        .filter(|bad| bad.is_list())
        .map(Bad::tree)
        .collect();
    bad.retain(|bad| bad.is_list() || !lists.contains(&bad.tree()));
    let mut told: Vec<DamagedFile> = bad.iter().map(|bad| bad.told(folder)).collect();
    for copy in files_of(folder, true)? {
        told.extend(verify(folder, &copy)?.1);
    }
    Ok(told)
}

/// Has the next opening look at all tables, however many.
pub(crate) fn suspect(folder: &Path) {
    // Without it, that opening only looks at less.
    if let Err(error) = File::create(folder.join(SUSPECT)) {
        tracing::warn!(%error, "that tables are to be verified by the next start cannot be noted");
    }
}

/// A copy is not what was written: the next engine makes it anew, because it has no list.
pub(crate) fn forget_copy(folder: &Path, tree: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(COPIES).join(tree).join(CURRENT)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Puts copies in the place of files that are not what they must be; before the engine is opened.
/// With `all`, looks at every table, else at as many as an opening does.
///
/// # Errors
/// [`KvError::Damaged`] where there is no good copy, unless `accept_loss`; nothing is changed then.
pub(crate) fn heal(folder: &Path, accept_loss: bool, all: bool) -> Result<(), KvError> {
    let suspect = folder.join(SUSPECT);
    let all = all || suspect.exists();
    let bad = look(folder, if all { u64::MAX } else { OPENING_MAX })?;
    // A list without a copy is somebody else's finding (`tables.rs`): it may be of an engine that
    // was never used.
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
    match fs::remove_file(&suspect) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(KvError::open(&suspect, &error))
        }
        _ => Ok(()),
    }
}

/// Whether each tree has a list, and a copy of it, that this version of the engine reads.
fn is_known(folder: &Path, copied: &[PathBuf]) -> Result<bool, KvError> {
    let own = trees(folder).map_err(|error| KvError::open(folder, &error))?;
    let reads = |tree: &PathBuf| {
        whole_copy(&folder.join(tree)).is_some()
            && whole_copy(&folder.join(COPIES).join(tree)).is_some()
    };
    Ok(!own.is_empty() && own.iter().all(reads) && copied.iter().all(|tree| own.contains(tree)))
}

/// Looks at no more tables than have `most` bytes together, but for each whether it is there.
fn look(folder: &Path, most: u64) -> Result<Vec<Bad>, KvError> {
    let copies = folder.join(COPIES);
    // Copies that cannot be looked for are none: the engine's own files may be good.
    let second = trees(&copies).unwrap_or_default();
    let (version, known) = VERSION;
    let own = fs::read(folder.join(version)).unwrap_or_default();
    let told = own.len() == known.len() && own[..3] == known[..3];
    // Where all else is as this version writes it, and so is the copy of it, it is the number that
    // is not what was written.
    let whole = told && (own == known || !is_known(folder, &second)?);
    if whole && own != known {
        // Of another version of the engine: it is not for this one to judge.
        return Ok(Vec::new());
    }
    let mut bad = Vec::new();
    if !whole && !second.is_empty() {
        bad.push(Bad {
            path: version.into(),
            good: Some(Good::Version),
        });
    }
    let mut all = trees(folder).map_err(|error| KvError::open(folder, &error))?;
    let gone = second.into_iter().filter(|tree| !all.contains(tree));
    let gone: Vec<PathBuf> = gone.collect();
    all.extend(gone);
    let mut left = most;
    for tree in all {
        let kept = whole_copy(&copies.join(&tree));
        let sound = sound_list(&folder.join(&tree), kept.as_ref())?;
        let tables = sound.as_ref().or(kept.as_ref());
        let tables = tables.and_then(|list| list.tables.clone());
        if sound.is_none() {
            bad.push(Bad {
                path: tree.join(CURRENT),
                good: kept.map(Good::Tree),
            });
        }
        for table in tables.unwrap_or_default() {
            let own = table_path(&folder.join(&tree), &table);
            let length = fs::metadata(&own).map(|m| m.len()).ok();
            if length.is_some_and(|length| length > left) {
                continue;
            }
            left -= length.unwrap_or(0);
            if is(&own, table.sum)? {
                continue;
            }
            let good = is(&table_path(&copies.join(&tree), &table), table.sum)?;
            bad.push(Bad {
                path: table_path(&tree, &table),
                good: good.then_some(Good::Table(table.sum)),
            });
        }
    }
    Ok(bad)
}

pub(crate) fn table_path(tree: &Path, table: &Table) -> PathBuf {
    tree.join(TABLES).join(table.id.to_string())
}

/// The list of a tree, unless it is damaged. One that says nothing of tables is, where the copy of
/// it does.
fn sound_list(tree: &Path, kept: Option<&List>) -> Result<Option<List>, KvError> {
    let says_nothing = |list: &List| list.tables.is_none() && kept.is_some();
    loop {
        let before = fs::read(tree.join(CURRENT)).ok();
        match list(tree) {
            Ok(list) if !says_nothing(&list) => return Ok(Some(list)),
            Ok(_) | Err(KvError::Damaged { .. }) => {}
            Err(other) => return Err(other),
        }
        // An engine that is open writes a list, says that it counts, and removes the one before.
        if fs::read(tree.join(CURRENT)).ok() == before {
            return Ok(None);
        }
    }
}

/// Whether a tree's list names a table still: an engine that is open removes those that it does not
/// need.
fn names(tree: &Path, table: &Table) -> bool {
    let now = sound_list(tree, None).ok().flatten();
    let tables = now.and_then(|list| list.tables);
    tables.is_none_or(|tables| tables.contains(table))
}

/// Whether a file has this checksum: not, where it is not there, or the disk does not give it.
fn is(path: &Path, sum: u128) -> Result<bool, KvError> {
    match sum_of(path, |_| Ok(())) {
        Ok(found) => Ok(found == sum),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.raw_os_error() == Some(EIO) => Ok(false),
        Err(error) => Err(KvError::open(path, &error)),
    }
}

/// The list of a tree's copy.
pub(crate) fn whole_copy(tree: &Path) -> Option<List> {
    list(tree).ok().filter(|list| list.tables.is_some())
}

impl Bad {
    fn told(&self, folder: &Path) -> DamagedFile {
        let remedy = if self.good.is_some() {
            Remedy::RestoreCopy
        } else {
            Remedy::None
        };
        DamagedFile {
            path: folder.join(&self.path),
            remedy,
        }
    }

    fn is_list(&self) -> bool {
        self.path.ends_with(CURRENT)
    }

    /// The folder of its tree; of what is in none, the engine's.
    fn tree(&self) -> PathBuf {
        self.path.iter().take(2).collect()
    }

    fn mend(&self, folder: &Path) -> io::Result<()> {
        let copies = folder.join(COPIES);
        match &self.good {
            None => Ok(()),
            Some(Good::Version) => {
                set_aside(folder, &self.path)?;
                put(&copies, VERSION.1, &folder.join(VERSION.0))
            }
            Some(Good::Table(sum)) => {
                let (from, to) = (copies.join(&self.path), folder.join(&self.path));
                set_aside(folder, &self.path)?;
                match copy(&copies, &from, &to, *sum, &mut |_| true) {
                    Ok(Copied::Done) => Ok(()),
                    Ok(_) => Err(io::ErrorKind::InvalidData.into()),
                    // There is no room for two of it: the copy becomes the file, and a copy of that
                    // is made when there is.
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                        install(&from, &to)?;
                        forget_copy(folder, &self.tree())
                    }
                    Err(error) => Err(error),
                }
            }
            Some(Good::Tree(list)) => {
                let (tree, own) = (self.tree(), folder.join(self.tree()));
                let names = fs::read(copies.join(&tree).join(&list.name))?;
                // Tables that the list does not name are removed by whoever opens it.
                set_aside_all(folder, &tree)?;
                put(&copies, &names, &own.join(&list.name))?;
                put(&copies, &list.current, &own.join(CURRENT))
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

/// What became of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    Done,
    /// `go_on` said so.
    Stopped,
    /// The source has not this checksum.
    Damaged,
}

/// Copies a file that has this checksum, as long as `go_on` lets it.
pub(crate) fn copy(
    copies: &Path,
    from: &Path,
    to: &Path,
    sum: u128,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> io::Result<Copied> {
    let unfinished = copies.join(UNFINISHED);
    let done = copy_to(&unfinished, from, to, sum, go_on);
    if !matches!(done, Ok(Copied::Done)) {
        // It would take room that others may need.
        let _ = fs::remove_file(&unfinished);
    }
    done
}

fn copy_to(
    unfinished: &Path,
    from: &Path,
    to: &Path,
    sum: u128,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> io::Result<Copied> {
    let mut file = File::create(unfinished)?;
    let mut stopped = false;
    let found = sum_of(from, |piece| {
        stopped = stopped || !go_on(piece.len());
        if stopped {
            return Err(io::Error::other("it was stopped"));
        }
        file.write_all(piece)
    });
    if stopped {
        return Ok(Copied::Stopped);
    }
    match found {
        Ok(found) if found == sum => {}
        Ok(_) => return Ok(Copied::Damaged),
        Err(error) if error.raw_os_error() == Some(EIO) => return Ok(Copied::Damaged),
        Err(error) => return Err(error),
    }
    file.sync_all()?;
    // Nobody reads it soon.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    install(unfinished, to)?;
    Ok(Copied::Done)
}

/// Writes a small file; it is there wholly or not at all.
pub(crate) fn put(copies: &Path, bytes: &[u8], to: &Path) -> io::Result<()> {
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
