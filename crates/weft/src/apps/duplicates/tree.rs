//! The files of the tree, and how their blocks are divided among the workers.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::record::TreeFile;

/// An entry that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Skipped {
    pub(crate) path: String,
    pub(crate) reason: String,
}

impl Skipped {
    pub(crate) fn new(path: &Path, reason: &impl ToString) -> Skipped {
        Skipped {
            path: crate::terminal::name::escape(path.as_os_str().as_bytes()),
            reason: reason.to_string(),
        }
    }
}

/// Every regular file below `root`, in the order of their paths' bytes; symbolic links are not
/// followed.
pub(crate) fn walk(root: &Path) -> Result<(Vec<TreeFile>, Vec<Skipped>)> {
    // The root must be readable; entries below that are not are skipped.
    let top = std::fs::read_dir(root).with_context(|| format!("cannot read {}", root.display()))?;
    let (mut files, mut skipped) = (Vec::new(), Vec::new());
    let mut waiting: Vec<(PathBuf, std::fs::ReadDir)> = vec![(PathBuf::new(), top)];
    while let Some((folder, entries)) = waiting.pop() {
        for entry in entries {
            let looked = entry.and_then(|e| Ok((folder.join(e.file_name()), e.metadata()?)));
            let (path, metadata) = match looked {
                Ok(found) => found,
                Err(e) => {
                    skipped.push(Skipped::new(&root.join(&folder), &e));
                    continue;
                }
            };
            if metadata.is_file() {
                files.push(TreeFile {
                    size: metadata.len(),
                    path: path.into_os_string().into_vec(),
                });
            } else if metadata.is_dir() {
                match std::fs::read_dir(root.join(&path)) {
                    Ok(entries) => waiting.push((path, entries)),
                    Err(e) => skipped.push(Skipped::new(&root.join(&path), &e)),
                }
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((files, skipped))
}

/// A run of blocks of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The file's number.
    pub(crate) file: usize,
    /// The first block.
    pub(crate) first: u64,
    /// One past the last block.
    pub(crate) end: u64,
}

/// What opening a file costs, in blocks.
const OPENING: u64 = 4;

/// The share of a worker: runs of blocks in order. Large files are split, so that all shares weigh
/// about the same.
pub(crate) fn share(files: &[TreeFile], block: u64, worker: u32, workers: u32) -> Vec<Share> {
    let blocks = |file: &TreeFile| file.size.div_ceil(block);
    let weight = |file: &TreeFile| match blocks(file) {
        0 => 0,
        n => n + OPENING,
    };
    let all: u128 = files.iter().map(|f| u128::from(weight(f))).sum();
    let boundary = |w: u32| (all * u128::from(w) / u128::from(workers)) as u64;
    let (from, to) = (boundary(worker), boundary(worker + 1));
    let mut shares = Vec::new();
    let mut begins = 0;
    for (number, file) in files.iter().enumerate() {
        let ends = begins + weight(file);
        // The cost of opening comes before the first block.
        let block_at = |place: u64| place.saturating_sub(begins + OPENING).min(blocks(file));
        let (first, end) = (block_at(from), block_at(to));
        if first < end {
            shares.push(Share {
                file: number,
                first,
                end,
            });
        }
        begins = ends;
        if begins >= to {
            break;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: u64) -> TreeFile {
        TreeFile {
            path: Vec::new(),
            size,
        }
    }

    #[test]
    fn every_block_is_in_exactly_one_share() {
        for sizes in [
            &[][..],
            &[0],
            &[1],
            &[10, 0, 4096, 4097, 99],
            &[1_000_000, 1, 1, 1],
            &[1; 50],
        ] {
            let files: Vec<TreeFile> = sizes.iter().map(|s| file(*s)).collect();
            for workers in 1..9 {
                let mut next = vec![0; files.len()];
                for worker in 0..workers {
                    for share in share(&files, 10, worker, workers) {
                        assert_eq!(share.first, next[share.file], "in order, without gaps");
                        assert!(share.end > share.first);
                        next[share.file] = share.end;
                    }
                }
                let all: Vec<u64> = files.iter().map(|f| f.size.div_ceil(10)).collect();
                assert_eq!(next, all);
            }
        }
    }

    #[test]
    fn shares_have_about_the_same_size() {
        let files: Vec<TreeFile> = (0..1000).map(|i| file(i * 37 % 5000)).collect();
        let count = |worker| -> u64 {
            let own = share(&files, 10, worker, 4);
            own.iter().map(|s| s.end - s.first).sum()
        };
        let all: u64 = files.iter().map(|f| f.size.div_ceil(10)).sum();
        for worker in 0..4 {
            assert!(count(worker).abs_diff(all / 4) < all / 20);
        }
    }

    #[test]
    fn a_walk_finds_regular_files_and_follows_no_link() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("d/e")).unwrap();
        std::fs::write(root.path().join("d/e/f"), b"12345").unwrap();
        std::fs::write(root.path().join("a"), b"").unwrap();
        std::os::unix::fs::symlink("..", root.path().join("d/up")).unwrap();
        let (files, skipped) = walk(root.path()).unwrap();
        let found: Vec<_> = files.iter().map(|f| (&f.path[..], f.size)).collect();
        assert_eq!(found, [(&b"a"[..], 0), (b"d/e/f", 5)]);
        assert_eq!(skipped, []);
        assert!(walk(&root.path().join("none")).is_err());
    }
}
