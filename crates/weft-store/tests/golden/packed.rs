//! Folders packed into one file, with runs of equal bytes as a count, because a store preallocates
//! zeros.
//!
//! A packed folder is, for each file in the order of names: the length of the path (2 bytes,
//! little-endian), the path, the length of the file; then, until the file is complete: a count of
//! literal bytes, those bytes, a count of equal bytes, their value. Counts are LEB128.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Files by path, folders between slashes.
pub type Tree = BTreeMap<String, Vec<u8>>;

/// The smallest number of equal bytes that is packed as a run.
const RUN_MIN: usize = 6;

/// Reads all files of a folder.
pub fn gather(folder: &Path, prefix: &str, tree: &mut Tree) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let name = format!("{prefix}/{name}");
        if path.is_dir() {
            gather(&path, &name, tree);
        } else {
            tree.insert(name, fs::read(&path).unwrap());
        }
    }
}

/// Writes the files below `prefix` to a folder; zeros as holes.
pub fn scatter(tree: &Tree, prefix: &str, folder: &Path) {
    use std::os::unix::fs::FileExt;
    for (name, bytes) in tree.iter().filter(|(name, _)| name.starts_with(prefix)) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = fs::File::create(path).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        for (n, block) in bytes.chunks(4096).enumerate() {
            if block.iter().any(|b| *b != 0) {
                file.write_all_at(block, n as u64 * 4096).unwrap();
            }
        }
    }
}

fn write_count(out: &mut Vec<u8>, mut count: usize) {
    while count >= 128 {
        out.push(count as u8 | 128);
        count >>= 7;
    }
    out.push(count as u8);
}

fn take_count(bytes: &mut &[u8]) -> usize {
    let (mut count, mut shift) = (0, 0);
    loop {
        let byte = take(bytes, 1)[0];
        count |= usize::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            return count;
        }
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

/// Packs a tree.
pub fn pack(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, bytes) in tree {
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        write_count(&mut out, bytes.len());
        let mut from = 0;
        while from < bytes.len() {
            let (start, run) = next_run(bytes, from);
            write_count(&mut out, start - from);
            out.extend_from_slice(&bytes[from..start]);
            write_count(&mut out, run);
            out.push(bytes.get(start).copied().unwrap_or(0));
            from = start + run;
        }
    }
    out
}

/// Where the next run begins, and its length; 0 at the end.
fn next_run(bytes: &[u8], from: usize) -> (usize, usize) {
    let mut start = from;
    while start < bytes.len() {
        let value = bytes[start];
        let run = bytes[start..].iter().take_while(|b| **b == value).count();
        if run >= RUN_MIN {
            return (start, run);
        }
        start += run;
    }
    (start, 0)
}

/// The tree that was packed.
pub fn unpack(mut packed: &[u8]) -> Tree {
    let packed = &mut packed;
    let mut tree = Tree::new();
    while !packed.is_empty() {
        let length = u16::from_le_bytes(take(packed, 2).try_into().unwrap());
        let name = String::from_utf8(take(packed, length.into()).to_vec()).unwrap();
        let length = take_count(packed);
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let literal = take_count(packed);
            bytes.extend_from_slice(take(packed, literal));
            let run = take_count(packed);
            bytes.resize(bytes.len() + run, take(packed, 1)[0]);
        }
        assert_eq!(bytes.len(), length, "{name}");
        tree.insert(name, bytes);
    }
    tree
}
