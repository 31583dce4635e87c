//! What the engine's tables hold, found out without opening the engine.
//!
//! Opening them changes their folder: files that the newest version does not name are removed, and a folder without the file
//! `current` is taken for one that was never used and removed as a whole. So a folder of links to them is opened instead,
//! and goes again; and where something was synced, the files must be there that say what belongs to the engine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use lsm_tree::{AbstractTree, AnyTree, Config, SeqNo, SequenceNumberCounter};
use xxhash_rust::xxh3::xxh3_128;

use crate::KvError;
use crate::batch::NUMBER_KEY;

/// The folder of links; fjall looks at nothing of that name.
const LOOK: &str = "weft.look";
/// The trees: number 0 has the names of the others. The one with all pairs is number 1, but where the first opening of the engine
/// was interrupted.
const TREES: &str = "keyspaces";

/// Whether the files are there without which fjall would begin anew.
pub(crate) fn complete(folder: &Path) -> Result<(), KvError> {
    let needed = ["version", "keyspaces/0/current"];
    let missing = needed.iter().find(|name| !folder.join(name).exists());
    if let Some(name) = missing {
        return Err(KvError::damaged(folder, format!("{name} is not there")));
    }
    let trees = trees(folder).map_err(|error| KvError::of_file(folder, &error))?;
    if trees.len() < 2 {
        let what = "no tree of it but the first has the file current";
        return Err(KvError::damaged(folder, what.to_owned()));
    }
    trees.iter().try_for_each(|tree| named(&folder.join(tree)))
}

/// The trees of an engine that have tables, as paths in its folder; none where there are none yet.
fn trees(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder.join(TREES)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut trees = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let tree = Path::new(TREES).join(&name);
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
        if number.is_some() && folder.join(&tree).join("current").exists() {
            trees.push(tree);
        }
    }
    Ok(trees)
}

/// Whether the list of a tree's tables is the one that was written: `current` is its number 8, its XXH3 16 and a zero. fjall
/// does not look at the checksum, and removes tables that the list does not name.
fn named(tree: &Path) -> Result<(), KvError> {
    let broken = |error: io::Error| KvError::of_file(tree, &error);
    let current = fs::read(tree.join("current")).map_err(broken)?;
    let Some((number, sum)) = current.split_first_chunk::<8>() else {
        return Err(KvError::damaged(tree, "current is too short".to_owned()));
    };
    let name = format!("v{}", u64::from_le_bytes(*number));
    let list = fs::read(tree.join(&name)).map_err(|error| {
        let error = io::Error::new(error.kind(), format!("{name}: {error}"));
        KvError::of_file(tree, &error)
    })?;
    let sum: Option<[u8; 17]> = sum.try_into().ok();
    let written = xxh3_128(&list).to_le_bytes();
    match sum {
        // Another length, another version of the engine.
        Some(sum) if sum[16] == 0 && sum[..16] != written => Err(KvError::damaged(
            tree,
            format!("{name} is not what current says"),
        )),
        _ => Ok(()),
    }
}

/// The last commit that the tables hold; 0 where they hold none. Nothing where nothing can be written to look: on a full disk,
/// say, on which the engine itself can be opened.
pub(crate) fn number(folder: &Path) -> Result<Option<u64>, KvError> {
    let look = folder.join(LOOK);
    let held = match clear(&look).and_then(|()| link_all(folder, &look)) {
        Ok(trees) => number_in(folder, &look, &trees).map(Some),
        Err(error) if no_room(&error) => Ok(None),
        Err(error) => Err(KvError::open(folder, &error)),
    };
    // What stays is removed by the next look.
    let _ = clear(&look);
    held
}

fn clear(look: &Path) -> io::Result<()> {
    match fs::remove_dir_all(look) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        error.kind(),
        QuotaExceeded | ReadOnlyFilesystem | StorageFull
    )
}

/// Makes the folder of links; answers the trees.
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

/// Makes a folder whose files are those of another, by links or as copies.
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
