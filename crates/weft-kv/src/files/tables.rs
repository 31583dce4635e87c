//! The last commit in the engine's tables, read without opening the engine.
//!
//! Opening the tables changes their folder: files that the newest version does not name are
//! deleted, and a folder without the file `current` counts as never used and is deleted as a whole.
//! So a temporary folder of links to them is opened instead; and where something was synced, the
//! files must be there that say what belongs to the engine.

use std::path::{Path, PathBuf};
use std::{fs, io};

use lsm_tree::{AbstractTree, AnyTree, Config, SeqNo, SequenceNumberCounter};

use super::lists::{list, trees};
use crate::KvError;
use crate::journal_batch::NUMBER_KEY;

/// The folder of links; fjall ignores this name.
const LOOK: &str = "weft.look";

/// Checks that the files are there without which fjall would begin an empty engine.
pub(crate) fn check_complete(folder: &Path) -> Result<(), KvError> {
    let needed = ["version", "keyspaces/0/current"];
    let missing = needed.iter().find(|name| !folder.join(name).exists());
    if let Some(name) = missing {
        return Err(KvError::damaged(folder, format!("{name} is missing")));
    }
    let trees = trees(folder).map_err(|error| KvError::of_file(folder, &error))?;
    if trees.len() < 2 {
        let what = "no tree but the first has the file current";
        return Err(KvError::damaged(folder, what.to_owned()));
    }
    trees
        .iter()
        .try_for_each(|tree| list(&folder.join(tree)).map(drop))
}

/// The number of the last commit in the tables; 0 where they have none. `None` where the folder of
/// links cannot be written: on a full disk, say, on which the engine can be opened all the same.
pub(crate) fn last_commit(folder: &Path) -> Result<Option<u64>, KvError> {
    let look = folder.join(LOOK);
    let held = match clear(&look).and_then(|()| link_all(folder, &look)) {
        Ok(trees) => number_in(folder, &look, &trees).map(Some),
        Err(error) if is_full(&error) => Ok(None),
        Err(error) => Err(KvError::open(folder, &error)),
    };
    // The next look removes what is left.
    let _ = clear(&look);
    held
}

fn clear(look: &Path) -> io::Result<()> {
    match fs::remove_dir_all(look) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Whether the file system takes no more.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        error.kind(),
        QuotaExceeded | ReadOnlyFilesystem | StorageFull
    )
}

/// Makes the folder of links. Returns the trees.
fn link_all(folder: &Path, look: &Path) -> io::Result<Vec<PathBuf>> {
    let trees = trees(folder)?;
    for tree in &trees {
        link(&folder.join(tree), &look.join(tree))?;
    }
    Ok(trees)
}

fn number_in(folder: &Path, look: &Path, trees: &[PathBuf]) -> Result<u64, KvError> {
    let mut held = 0;
    for tree in trees {
        let broken = |error: lsm_tree::Error| KvError::of_tables(&folder.join(tree), &error);
        let tree = open(&look.join(tree)).map_err(broken)?;
        let value = tree.get(NUMBER_KEY, SeqNo::MAX).map_err(broken)?;
        let number = value.and_then(|n| Some(u64::from_le_bytes((*n).try_into().ok()?)));
        held = held.max(number.unwrap_or(0));
    }
    Ok(held)
}

fn open(folder: &Path) -> lsm_tree::Result<AnyTree> {
    let counter = SequenceNumberCounter::default;
    Config::new(folder, counter(), counter()).open()
}

/// Makes a folder with the files of another, as links or copies.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link(&entry.path(), &to)?;
        } else if fs::hard_link(entry.path(), &to).is_err() {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}
