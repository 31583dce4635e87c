//! The visible state of a directory.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Stat, lgetxattr, llistxattr, lstat};

/// Whether the bytes of files are compared, too.
#[derive(Clone, Copy, PartialEq)]
pub enum Bytes {
    All,
    None,
}

/// The attributes that must agree. Not: inode numbers, blocks, sizes of directories, times of
/// access and change.
#[derive(Clone, PartialEq)]
pub struct Seen {
    kind: FileType,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    size: Option<u64>,
    device: u64,
    /// The time of modification, if it was set to the past; a recent one each file system takes
    /// from its own clock.
    modified: Option<i64>,
    /// The text of a link.
    text: Vec<u8>,
    /// The first path that names the same inode.
    first: String,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: Option<Vec<u8>>,
}

impl Seen {
    pub fn of(stat: &Stat, began: i64) -> Seen {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let modified = stat.st_mtime * 1_000_000_000 + stat.st_mtime_nsec.cast_signed();
        Seen {
            kind,
            mode: stat.st_mode & 0o7777,
            owner: (stat.st_uid, stat.st_gid),
            links: stat.st_nlink,
            size: (kind != FileType::Directory).then_some(stat.st_size.unsigned_abs()),
            device: stat.st_rdev,
            modified: (modified < began).then_some(modified),
            text: Vec::new(),
            first: String::new(),
            attributes: BTreeMap::new(),
            bytes: None,
        }
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Seen {
            kind,
            mode,
            owner,
            links,
            size,
            device,
            modified,
            text,
            first,
            attributes,
            bytes,
        } = self;
        write!(
            f,
            "{kind:?} {mode:o} {owner:?} links {links} size {size:?} device {device} modified {modified:?} "
        )?;
        write!(
            f,
            "to {:?} as {first:?} {attributes:?} ",
            String::from_utf8_lossy(text)
        )?;
        bytes
            .as_ref()
            .map_or(Ok(()), |bytes| write!(f, "{}", runs(bytes)))
    }
}

/// Bytes in readable form: the first runs of equal bytes.
pub fn runs(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes:", bytes.len());
    let mut at = 0;
    for _ in 0..12 {
        let Some(first) = bytes.get(at) else { break };
        let run = bytes[at..]
            .iter()
            .take_while(|b| (**b == 0) == (*first == 0))
            .count();
        let sample = &bytes[at..at + run.min(4)];
        let _ = write!(text, " {at}+{run} {sample:?}");
        at += run;
    }
    text
}

/// Everything under a directory, by its path.
pub fn snapshot(root: &Path, began: i64, bytes: Bytes) -> BTreeMap<String, Seen> {
    let mut found = BTreeMap::new();
    let mut first = HashMap::new();
    look(root, ".", began, bytes, &mut first, &mut found);
    found
}

fn look(
    root: &Path,
    path: &str,
    began: i64,
    bytes: Bytes,
    first: &mut HashMap<u64, String>,
    found: &mut BTreeMap<String, Seen>,
) {
    let full = root.join(path);
    let stat = lstat(&full).unwrap_or_else(|e| panic!("{path} is listed, and then {e}"));
    let mut seen = Seen::of(&stat, began);
    let named = first.entry(stat.st_ino).or_insert_with(|| path.to_owned());
    seen.first.clone_from(named);
    seen.attributes = attributes(&full);
    match seen.kind {
        FileType::Symlink => {
            seen.text = std::fs::read_link(&full)
                .unwrap()
                .as_os_str()
                .as_bytes()
                .to_vec();
        }
        FileType::RegularFile if bytes == Bytes::All => {
            seen.bytes =
                Some(std::fs::read(&full).unwrap_or_else(|e| panic!("reading {path}: {e}")));
        }
        _ => {}
    }
    let directory = seen.kind == FileType::Directory;
    found.insert(path.to_owned(), seen);
    if !directory {
        return;
    }
    let mut entries: Vec<_> = std::fs::read_dir(&full)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let below = format!("{path}/{}", name.to_str().unwrap());
        let listed = entry.file_type().unwrap();
        look(root, &below, began, bytes, first, found);
        let kind = found[&below].kind;
        assert_eq!(
            (listed.is_dir(), listed.is_symlink()),
            (kind == FileType::Directory, kind == FileType::Symlink)
        );
    }
}

fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = [0; 2048];
    let Ok(length) = llistxattr(path, &mut names[..]) else {
        return BTreeMap::new();
    };
    let names = names[..length]
        .split(|b| *b == 0)
        .filter(|name| name.starts_with(b"user."));
    let values = names.map(|name| {
        let mut value = [0; 256];
        let length = lgetxattr(path, name, &mut value[..]).unwrap();
        (name.to_vec(), value[..length].to_vec())
    });
    values.collect()
}
