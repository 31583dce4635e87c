//! Verifying the files of the engine's tables and of their copies, one by one, while the engine is
//! open or closed.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::copies::{COPIES, table_path, whole_copy};
use super::lists::{CURRENT, EIO, List, Table, list, sum_of, trees};
use crate::KvError;

/// A file of the engine's tables, or of their copy, that can be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFile {
    /// The tree's folder, relative to the engine's.
    tree: PathBuf,
    /// `None`: the tree's list.
    table: Option<Table>,
    origin: Origin,
}

/// Where a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The engine reads and writes it.
    Engine,
    /// It is in the second copy.
    Copy,
}

impl Origin {
    /// The folder of these files, in the engine's folder.
    fn base(self, folder: &Path) -> PathBuf {
        match self {
            Origin::Engine => folder.to_path_buf(),
            Origin::Copy => folder.join(COPIES),
        }
    }
}

/// A file of the engine's tables, or of their copy, that does not hold what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFile {
    /// The file.
    pub path: PathBuf,
    /// How it is repaired.
    pub remedy: Remedy,
}

/// How a damaged file is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The next opening of the engine restores it from its copy.
    RestoreCopy,
    /// It is a copy, which an open engine makes again.
    Recopy,
    /// There is no good copy.
    None,
}

impl std::fmt::Display for DamagedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let remedy = match self.remedy {
            Remedy::RestoreCopy => {
                "its copy is good, and the next start of its node restores it from there"
            }
            Remedy::Recopy => "it is only a copy, which is made again",
            Remedy::None => "there is no good copy of it",
        };
        write!(
            f,
            "{} does not hold what was written; {remedy}",
            self.path.display()
        )
    }
}

/// All files in a folder that can be verified.
///
/// # Errors
/// When its folders cannot be read.
pub(crate) fn files(folder: &Path) -> Result<Vec<EngineFile>, KvError> {
    let (engine, copies) = (
        files_of(folder, Origin::Engine)?,
        files_of(folder, Origin::Copy)?,
    );
    Ok([engine, copies].concat())
}

/// The files of the trees, or of their copies.
pub(super) fn files_of(folder: &Path, origin: Origin) -> Result<Vec<EngineFile>, KvError> {
    let base = origin.base(folder);
    let mut all = Vec::new();
    for tree in trees(&base).map_err(|error| KvError::open(&base, &error))? {
        let tables = list(&base.join(&tree)).ok().and_then(|list| list.tables);
        let tables = tables.into_iter().flatten().map(Some);
        all.extend([None].into_iter().chain(tables).map(|table| EngineFile {
            tree: tree.clone(),
            table,
            origin,
        }));
    }
    Ok(all)
}

impl EngineFile {
    /// The tree of a copy; `None` for the engine's files.
    pub(crate) fn copied_tree(&self) -> Option<&Path> {
        (self.origin == Origin::Copy).then_some(&*self.tree)
    }
}

/// Verifies a file, also of an open engine; returns the bytes read and the damage found.
///
/// # Errors
/// When it cannot be read for another reason than damage.
pub(crate) fn verify(
    folder: &Path,
    file: &EngineFile,
) -> Result<(u64, Option<DamagedFile>), KvError> {
    let tree = file.origin.base(folder).join(&file.tree);
    let copied = folder.join(COPIES).join(&file.tree);
    let is_copy = file.origin == Origin::Copy;
    if is_copy && !tree.join(CURRENT).exists() {
        // It is being made again.
        return Ok((0, None));
    }
    let (path, read, right) = match &file.table {
        None => {
            let copy = whole_copy(&copied);
            let right = sound_list(&tree, copy.as_ref())?.is_some();
            (tree.join(CURRENT), 0, right)
        }
        Some(table) => {
            let path = table_path(&tree, table);
            let read = fs::metadata(&path).map_or(0, |m| m.len());
            let right = has_sum(&path, table.sum)? || !is_listed(&tree, table);
            (path, read, right)
        }
    };
    if right {
        return Ok((read, None));
    }
    let good = match &file.table {
        None => whole_copy(&copied).is_some(),
        Some(table) => has_sum(&table_path(&copied, table), table.sum)?,
    };
    let remedy = match good {
        _ if is_copy => Remedy::Recopy,
        true => Remedy::RestoreCopy,
        false => Remedy::None,
    };
    Ok((read, Some(DamagedFile { path, remedy })))
}

/// The list of a tree, unless it is damaged. A list without tables is, if its copy has some.
pub(super) fn sound_list(tree: &Path, copy: Option<&List>) -> Result<Option<List>, KvError> {
    let lacks_tables = |list: &List| list.tables.is_none() && copy.is_some();
    loop {
        let before = fs::read(tree.join(CURRENT)).ok();
        match list(tree) {
            Ok(list) if !lacks_tables(&list) => return Ok(Some(list)),
            Ok(_) | Err(KvError::Damaged { .. }) => {}
            Err(other) => return Err(other),
        }
        // An open engine writes a list, makes `current` name it, and removes the one before.
        if fs::read(tree.join(CURRENT)).ok() == before {
            return Ok(None);
        }
    }
}

/// Whether a tree's list still names a table: an open engine removes those that it does not need.
fn is_listed(tree: &Path, table: &Table) -> bool {
    let now = sound_list(tree, None).ok().flatten();
    let tables = now.and_then(|list| list.tables);
    tables.is_none_or(|tables| tables.contains(table))
}

/// Whether a file has this checksum; false where it is missing, or the disk cannot read it.
pub(super) fn has_sum(path: &Path, sum: u128) -> Result<bool, KvError> {
    match sum_of(path, |_| Ok(())) {
        Ok(found) => Ok(found == sum),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.raw_os_error() == Some(EIO) => Ok(false),
        Err(error) => Err(KvError::open(path, &error)),
    }
}
