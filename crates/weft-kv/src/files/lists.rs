//! Which tables belong to a tree of the engine, with their checksums.
//!
//! A tree is a folder. Its file `current` says which list of tables counts, and has the list's
//! checksum; the list names the tables and has the checksum of each. fjall checks neither: it
//! trusts the list, deletes tables that it does not name, and verifies a table block by block, so
//! it does not notice blocks that have changed places.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::KvError;
use crate::limits::READ_BYTES;

/// The folder of trees: number 0 has the names of the others. The one with all pairs is number 1,
/// unless the first opening of the engine was interrupted.
const TREES: &str = "keyspaces";
/// Says which list counts.
pub(crate) const CURRENT: &str = "current";
/// The folder of a tree's tables.
pub(crate) const TABLES: &str = "tables";
/// Input/output error: the disk cannot read a sector.
pub(crate) const EIO: i32 = 5;

/// A table, as its list names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) id: u64,
    /// XXH3 of its file.
    pub(crate) sum: u128,
}

/// The list of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// The list's file.
    pub(crate) name: String,
    /// What `current` holds.
    pub(crate) current: Vec<u8>,
    /// `None` where the list has a form that this code does not know.
    pub(crate) tables: Option<Vec<Table>>,
}

/// The trees of an engine that have tables, as paths relative to its folder.
pub(crate) fn trees(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder.join(TREES)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut trees = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let tree = Path::new(TREES).join(&name);
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
        if number.is_some() && folder.join(&tree).join(CURRENT).exists() {
            trees.push(tree);
        }
    }
    Ok(trees)
}

/// Reads a tree's list; `current` is its number (8 bytes), its XXH3 (16) and a zero.
///
/// # Errors
/// [`KvError::Damaged`] where it is not what was written.
pub(crate) fn list(tree: &Path) -> Result<List, KvError> {
    let damaged = |what: &str| KvError::damaged(tree, what.to_owned());
    let unread = |error: io::Error| match error.raw_os_error() {
        // A sector that the disk cannot read.
        Some(EIO) => KvError::damaged(tree, error.to_string()),
        _ => KvError::of_file(tree, &error),
    };
    let current = fs::read(tree.join(CURRENT)).map_err(unread)?;
    let number = current.first_chunk::<8>();
    let number = number.ok_or_else(|| damaged("current is too short"))?;
    let name = format!("v{}", u64::from_le_bytes(*number));
    let path = tree.join(&name);
    let bytes = fs::read(&path).map_err(|error| match error.raw_os_error() {
        Some(EIO) => unread(error),
        _ => unread(io::Error::new(error.kind(), format!("{name}: {error}"))),
    })?;
    // Another version of the engine writes another length.
    let sum: Option<[u8; 17]> = current[8..].try_into().ok();
    let known = sum.filter(|sum| sum[16] == 0);
    if known.is_some_and(|sum| sum[..16] != xxh3_128(&bytes).to_le_bytes()) {
        return Err(damaged(&format!(
            "{name} does not have the checksum in current"
        )));
    }
    let tables = known.and_then(|_| tables(&path));
    Ok(List {
        name,
        current,
        tables,
    })
}

/// The tables that a list names, in the form of lsm-tree 3.
fn tables(path: &Path) -> Option<Vec<Table>> {
    let archive = sfa::Reader::new(path).ok()?;
    let mut bytes = Vec::new();
    let section = archive.toc().section(b"tables")?;
    section
        .buf_reader(path)
        .ok()?
        .read_to_end(&mut bytes)
        .ok()?;
    let mut rest = &bytes[..];
    let mut take = |length: usize| {
        let (front, behind) = rest.split_at_checked(length)?;
        rest = behind;
        Some(front)
    };
    let mut tables = Vec::new();
    for _ in 0..take(1)?[0] {
        for _ in 0..take(1)?[0] {
            for _ in 0..u32::from_le_bytes(take(4)?.try_into().ok()?) {
                let id = u64::from_le_bytes(take(8)?.try_into().ok()?);
                if take(1)? != [0] {
                    return None;
                }
                let sum = u128::from_le_bytes(take(16)?.try_into().ok()?);
                take(8)?;
                tables.push(Table { id, sum });
            }
        }
    }
    rest.is_empty().then_some(tables)
}

/// The XXH3 of a file; passes the file to `each` piece by piece.
pub(crate) fn sum_of(
    path: &Path,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let (mut sum, mut piece) = (Xxh3::new(), vec![0; READ_BYTES]);
    loop {
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(sum.digest128());
        }
        sum.update(&piece[..read]);
        each(&piece[..read])?;
    }
}

#[cfg(test)]
mod tests {
    use fjall::{Database, KeyspaceCreateOptions};
    use lsm_tree::AbstractTree;

    use super::*;

    /// This module relies on the format of the engine's files, which a new version may change.
    #[test]
    fn a_list_names_the_tables_that_the_engine_uses() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::builder(folder.path()).open().unwrap();
        let keyspace = database.keyspace("keys", KeyspaceCreateOptions::default);
        let keyspace = keyspace.unwrap();
        // The engine does not compact so few tables.
        for round in 0..3_u64 {
            for number in 0..100 {
                let key = (round + number * 3).to_be_bytes();
                keyspace.insert(key, [round as u8; 100]).unwrap();
            }
            keyspace.rotate_memtable_and_wait().unwrap();
        }
        let mut listed = list(keyspace.path()).unwrap().tables.unwrap();
        let version = keyspace.tree.current_version();
        let reported = version.iter_tables().map(|table| Table {
            id: table.id(),
            sum: table.checksum().into_u128(),
        });
        let mut reported: Vec<Table> = reported.collect();
        listed.sort_by_key(|table| table.id);
        reported.sort_by_key(|table| table.id);
        assert_eq!((reported.len(), &listed), (3, &reported));
        for table in listed {
            let file = keyspace.path().join(TABLES).join(table.id.to_string());
            assert_eq!(sum_of(&file, |_| Ok(())).unwrap(), table.sum);
        }
        assert_eq!(trees(folder.path()).unwrap().len(), 2);
    }
}
