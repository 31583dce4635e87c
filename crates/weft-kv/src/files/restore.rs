//! Restoring damaged files of a closed engine from their copies. What a restored file replaces is
//! kept in quarantine.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::copies::{
    COPIES, CopyOutcome, copy, forget_copy, install, table_path, whole_copy, write_atomically,
};
use super::lists::{CURRENT, List, TABLES, trees};
use super::verify::{DamagedFile, Origin, Remedy, files_of, has_sum, sound_list, verify};
use crate::KvError;
use crate::limits::OPEN_VERIFY_BYTES;

/// The quarantine: the folder of damaged files.
const DAMAGED: &str = "weft.damaged";
/// The file that makes the next opening verify all tables, whatever that costs.
const SUSPECT: &str = "weft.suspect";
/// The file that tells fjall its version, and what it holds in this version.
const VERSION: (&str, &[u8; 4]) = ("version", b"FJL\x03");

/// Which tables are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All.
    All,
    /// As many as an opening verifies, unless it has reason to suspect damage.
    Opening,
}

/// What becomes of damaged files without a good copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDamage {
    /// The engine is not opened.
    Refuse,
    /// They stay as they are.
    Accept,
}

/// A damaged file, and what replaces it.
struct Damage {
    /// Relative to the engine's folder.
    path: PathBuf,
    source: Option<Source>,
}

/// What replaces a damaged file.
enum Source {
    /// The copy of a table, with its checksum.
    Table(u128),
    /// The list of a tree's copy.
    Tree(List),
    /// The known content of the version file.
    Version,
}

/// All damage in a folder whose engine is closed: what an opening would restore, and the copies.
pub(crate) fn verify_all(folder: &Path) -> Result<Vec<DamagedFile>, KvError> {
    let mut damage = find_damage(folder, u64::MAX)?;
    // A restored list may be older: tables that were merged since come back with it, and are no
    // damage of their own.
    let lists: Vec<PathBuf> = damage
        .iter()
        .filter(|found| found.is_list())
        .map(Damage::tree)
        .collect();
    damage.retain(|found| found.is_list() || !lists.contains(&found.tree()));
    let mut all: Vec<DamagedFile> = damage.iter().map(|found| found.describe(folder)).collect();
    for copy in files_of(folder, Origin::Copy)? {
        all.extend(verify(folder, &copy)?.1);
    }
    Ok(all)
}

/// Makes the next opening verify all tables.
pub(crate) fn mark_suspect(folder: &Path) {
    // Without the mark that opening only verifies less.
    if let Err(error) = File::create(folder.join(SUSPECT)) {
        tracing::warn!(%error, "cannot schedule the verification of all tables for the next start");
    }
}

/// Restores damaged files of a closed engine from their copies.
///
/// # Errors
/// [`KvError::Damaged`] where a file has no good copy, unless that is accepted; nothing is changed
/// then.
pub(crate) fn restore(folder: &Path, on_damage: OnDamage, extent: Extent) -> Result<(), KvError> {
    let suspect = folder.join(SUSPECT);
    let all = extent == Extent::All || suspect.exists();
    let damage = find_damage(folder, if all { u64::MAX } else { OPEN_VERIFY_BYTES })?;
    // A list without a copy is found by `tables.rs`: it may be of an engine that was never used.
    let mut hopeless = damage
        .iter()
        .filter(|found| found.source.is_none() && !found.is_list());
    if on_damage == OnDamage::Refuse
        && let Some(found) = hopeless.next()
    {
        let what = "it does not hold what was written, and there is no good copy of it";
        return Err(KvError::damaged(&folder.join(&found.path), what.to_owned()));
    }
    for found in &damage {
        let path = folder.join(&found.path);
        let file = path.display();
        found
            .repair(folder)
            .map_err(|error| KvError::open(&path, &error))?;
        if found.source.is_some() {
            tracing::warn!(%file, "the file was damaged and is restored from its copy");
        } else {
            tracing::warn!(%file, "the file is damaged, and there is no copy of it");
        }
    }
    match fs::remove_file(&suspect) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(KvError::open(&suspect, &error))
        }
        _ => Ok(()),
    }
}

/// Whether each tree has a list, and a copy of it, that this version of the engine can read.
fn all_lists_readable(folder: &Path, copied: &[PathBuf]) -> Result<bool, KvError> {
    let own = trees(folder).map_err(|error| KvError::open(folder, &error))?;
    let readable = |tree: &PathBuf| {
        whole_copy(&folder.join(tree)).is_some()
            && whole_copy(&folder.join(COPIES).join(tree)).is_some()
    };
    Ok(!own.is_empty() && own.iter().all(readable) && copied.iter().all(|tree| own.contains(tree)))
}

/// Finds damage. Verifies no more tables than have `most` bytes together, but misses none that is
/// not there.
fn find_damage(folder: &Path, most: u64) -> Result<Vec<Damage>, KvError> {
    let copy_folder = folder.join(COPIES);
    // Copies that cannot be listed count as none: the engine's files may be good.
    let copied = trees(&copy_folder).unwrap_or_default();
    let (version, known) = VERSION;
    let own = fs::read(folder.join(version)).unwrap_or_default();
    let is_version = own.len() == known.len() && own[..3] == known[..3];
    // Where all lists and their copies are those of this version, it is the version's number that
    // is damaged.
    let whole = is_version && (own == known || !all_lists_readable(folder, &copied)?);
    if whole && own != known {
        // Another version of the engine wrote it: this one cannot tell what is damaged.
        return Ok(Vec::new());
    }
    let mut damage = Vec::new();
    if !whole && !copied.is_empty() {
        damage.push(Damage {
            path: version.into(),
            source: Some(Source::Version),
        });
    }
    let mut all = trees(folder).map_err(|error| KvError::open(folder, &error))?;
    let missing = copied.into_iter().filter(|tree| !all.contains(tree));
    let missing: Vec<PathBuf> = missing.collect();
    all.extend(missing);
    let mut left = most;
    for tree in all {
        damage.extend(damage_in_tree(folder, &tree, &mut left)?);
    }
    Ok(damage)
}

/// Finds damage in one tree; `left` are the bytes of tables that may still be verified.
fn damage_in_tree(folder: &Path, tree: &Path, left: &mut u64) -> Result<Vec<Damage>, KvError> {
    let copy_folder = folder.join(COPIES);
    let mut damage = Vec::new();
    let copied = whole_copy(&copy_folder.join(tree));
    let sound = sound_list(&folder.join(tree), copied.as_ref())?;
    let tables = sound.as_ref().or(copied.as_ref());
    let tables = tables.and_then(|list| list.tables.clone());
    if sound.is_none() {
        damage.push(Damage {
            path: tree.join(CURRENT),
            source: copied.map(Source::Tree),
        });
    }
    for table in tables.unwrap_or_default() {
        let own = table_path(&folder.join(tree), &table);
        let length = fs::metadata(&own).map(|m| m.len()).ok();
        if length.is_some_and(|length| length > *left) {
            continue;
        }
        *left -= length.unwrap_or(0);
        if has_sum(&own, table.sum)? {
            continue;
        }
        let good = has_sum(&table_path(&copy_folder.join(tree), &table), table.sum)?;
        damage.push(Damage {
            path: table_path(tree, &table),
            source: good.then_some(Source::Table(table.sum)),
        });
    }
    Ok(damage)
}

impl Damage {
    fn describe(&self, folder: &Path) -> DamagedFile {
        let remedy = if self.source.is_some() {
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

    /// The folder of its tree; the engine's for a file outside the trees.
    fn tree(&self) -> PathBuf {
        self.path.iter().take(2).collect()
    }

    fn repair(&self, folder: &Path) -> io::Result<()> {
        let copy_folder = folder.join(COPIES);
        match &self.source {
            None => Ok(()),
            Some(Source::Version) => {
                quarantine(folder, &self.path)?;
                write_atomically(&copy_folder, VERSION.1, &folder.join(VERSION.0))
            }
            Some(Source::Table(sum)) => {
                let (from, to) = (copy_folder.join(&self.path), folder.join(&self.path));
                quarantine(folder, &self.path)?;
                match copy(&copy_folder, &from, &to, *sum, &mut |_| true) {
                    Ok(CopyOutcome::Done) => Ok(()),
                    Ok(CopyOutcome::Stopped | CopyOutcome::Damaged) => {
                        Err(io::ErrorKind::InvalidData.into())
                    }
                    // There is no space for both: the copy becomes the file, and is made again when
                    // there is space.
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                        install(&from, &to)?;
                        forget_copy(folder, &self.tree())
                    }
                    Err(error) => Err(error),
                }
            }
            Some(Source::Tree(list)) => {
                let (tree, own) = (self.tree(), folder.join(self.tree()));
                let names = fs::read(copy_folder.join(&tree).join(&list.name))?;
                // An opening removes the tables that the list does not name.
                quarantine_tree(folder, &tree)?;
                write_atomically(&copy_folder, &names, &own.join(&list.name))?;
                write_atomically(&copy_folder, &list.current, &own.join(CURRENT))
            }
        }
    }
}

/// Moves a file, if it is there, to the quarantine.
fn quarantine(folder: &Path, path: &Path) -> io::Result<()> {
    let to = free_name(&folder.join(DAMAGED).join(path))?;
    match fs::rename(folder.join(path), to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Moves the lists of a tree to the quarantine, and links its tables there.
fn quarantine_tree(folder: &Path, tree: &Path) -> io::Result<()> {
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
        quarantine(folder, &list)?;
    }
    for table in names(&tree.join(TABLES))? {
        let to = free_name(&folder.join(DAMAGED).join(&table))?;
        if fs::hard_link(folder.join(&table), &to).is_err() {
            fs::copy(folder.join(&table), &to)?;
        }
    }
    fs::create_dir_all(folder.join(tree).join(TABLES))
}

/// The path, or a similar one that is not in use; creates its folder.
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
