//! Files of the second copy of the engine's tables: how they are written, found and forgotten.
//!
//! The content of a table is stored nowhere else, and one flipped bit in it would cost the engine.
//! Tables never change once they are written, and the list that names them has the checksum of each
//! (`lists.rs`). So a background thread (`engine/copier.rs`) copies them to a folder beside them.
//! When the engine is opened, every file that does not match its list is restored from there
//! (`restore.rs`): a table with the same checksum is the same table.
//!
//! The list is copied with its tables. A restored list may be older than the lost one and name
//! older tables; those are in the copy, which is always complete. The numbers of the commits then
//! tell whether anything that was synced is missing, as always (`loss.rs`).

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::lists::{CURRENT, EIO, List, TABLES, Table, list, sum_of};

/// The folder of copies; fjall ignores this name.
pub(crate) const COPIES: &str = "weft.copies";
/// A copy that is being made.
const UNFINISHED: &str = "unfinished";

/// The path of a table in the folder of its tree.
pub(crate) fn table_path(tree: &Path, table: &Table) -> PathBuf {
    tree.join(TABLES).join(table.id.to_string())
}

/// The list of a tree's copy, if it names its tables.
pub(crate) fn whole_copy(tree: &Path) -> Option<List> {
    list(tree).ok().filter(|list| list.tables.is_some())
}

/// Marks the copy of a tree as damaged by removing its list: the copier then makes it again.
pub(crate) fn forget_copy(folder: &Path, tree: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(COPIES).join(tree).join(CURRENT)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// The outcome of copying a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyOutcome {
    Done,
    /// `go_on` returned false.
    Stopped,
    /// The source does not have the expected checksum.
    Damaged,
}

/// Copies a file with this checksum, as long as `go_on` allows.
///
/// # Durability
/// On stable storage on [`CopyOutcome::Done`]; `to` is complete or unchanged at every moment.
pub(crate) fn copy(
    copies: &Path,
    from: &Path,
    to: &Path,
    sum: u128,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> io::Result<CopyOutcome> {
    let unfinished = copies.join(UNFINISHED);
    let done = copy_to(&unfinished, from, to, sum, go_on);
    if !matches!(done, Ok(CopyOutcome::Done)) {
        // It would take space that others may need.
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
) -> io::Result<CopyOutcome> {
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
        return Ok(CopyOutcome::Stopped);
    }
    match found {
        Ok(found) if found == sum => {}
        Ok(_) => return Ok(CopyOutcome::Damaged),
        Err(error) if error.raw_os_error() == Some(EIO) => return Ok(CopyOutcome::Damaged),
        Err(error) => return Err(error),
    }
    file.sync_all()?;
    // The copy is not read soon.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    install(unfinished, to)?;
    Ok(CopyOutcome::Done)
}

/// Writes a small file: after a crash `to` has either all of `bytes` or its old content.
pub(crate) fn write_atomically(copies: &Path, bytes: &[u8], to: &Path) -> io::Result<()> {
    let unfinished = copies.join(UNFINISHED);
    let mut file = File::create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    install(&unfinished, to)
}

/// Renames a finished file to its place, durably.
pub(super) fn install(unfinished: &Path, to: &Path) -> io::Result<()> {
    fs::rename(unfinished, to)?;
    to.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
