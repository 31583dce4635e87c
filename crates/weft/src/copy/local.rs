//! The local side of a copy: blocking calls on separate threads.

use std::fs::{self, File, Metadata, OpenOptions, ReadDir};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, SeekFrom, Timespec, Timestamps,
};
use rustix::io::Errno;
use weft_client::FileKind;

use super::node::{DirEntry, Node, Xattr};
use crate::limits::{LOCAL_HOLE_MIN, LOCAL_PAGE_ENTRIES};
use crate::streams::blocking;
use crate::terminal::name;

/// A local path that calls accept. A path that is too long for the kernel is resolved in segments:
/// `path` is then the last segment, in the directory that the others lead to.
struct ReachablePath {
    path: PathBuf,
    /// Keeps the directory open that `path` leads through.
    _directory: Option<OwnedFd>,
}

impl ReachablePath {
    fn new(path: &[u8]) -> io::Result<ReachablePath> {
        let (mut rest, mut directory): (&[u8], Option<OwnedFd>) = (path, None);
        while let Some((segment, behind)) = name::split(rest) {
            let at = directory.as_ref().map_or(CWD, AsFd::as_fd);
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            directory = Some(rustix::fs::openat(at, segment, flags, Mode::empty())?);
            rest = behind;
        }
        let mut path = PathBuf::new();
        if let Some(directory) = &directory {
            path.push(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        }
        path.push(name::os(rest));
        Ok(ReachablePath {
            path,
            _directory: directory,
        })
    }
}

/// Runs blocking work on what a local path names, whatever the path's length.
pub(crate) async fn at<T: Send + 'static>(
    path: &[u8],
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let path = path.to_vec();
    blocking(move || work(&ReachablePath::new(&path)?.path)).await
}

/// As [`at`], on two paths.
pub(super) async fn at_both<T: Send + 'static>(
    one: &[u8],
    other: &[u8],
    work: impl FnOnce(&Path, &Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (one, other) = (one.to_vec(), other.to_vec());
    blocking(move || {
        work(
            &ReachablePath::new(&one)?.path,
            &ReachablePath::new(&other)?.path,
        )
    })
    .await
}

/// The file that a path names; `None` if there is none.
pub(super) fn stat(path: &Path, follow: bool) -> io::Result<Option<Node>> {
    let found = if follow {
        fs::metadata(path)
    } else {
        fs::symlink_metadata(path)
    };
    match found {
        Ok(metadata) => Ok(Some(node(&metadata))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn node(m: &Metadata) -> Node {
    let kind = m.file_type();
    let kind = if kind.is_file() {
        FileKind::Regular
    } else if kind.is_dir() {
        FileKind::Directory
    } else if kind.is_symlink() {
        FileKind::Symlink
    } else if kind.is_fifo() {
        FileKind::Fifo
    } else if kind.is_socket() {
        FileKind::Socket
    } else if kind.is_block_device() {
        FileKind::BlockDevice
    } else {
        FileKind::CharDevice
    };
    let nanos =
        |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    Node {
        kind,
        mode: m.mode() & 0o7777,
        uid: m.uid(),
        gid: m.gid(),
        accessed: nanos(m.atime(), m.atime_nsec()),
        modified: nanos(m.mtime(), m.mtime_nsec()),
        size: m.len(),
        identity: (m.dev(), m.ino()),
        links: m.nlink(),
        device: m.rdev(),
        layout: None,
    }
}

/// The next entries of a directory; empty at its end.
pub(super) fn page(directory: &mut ReadDir) -> Vec<io::Result<DirEntry>> {
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        let node = node(&entry.metadata()?);
        Ok(DirEntry {
            name: name::bytes(&entry.file_name()).to_vec(),
            node,
        })
    };
    directory.take(LOCAL_PAGE_ENTRIES).map(entry).collect()
}

/// Whether this name exists.
pub(super) fn is_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Creates a regular file for writing; fails if its name is taken.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).create_new(true).open(path)
}

/// Opens an existing file for writing, and empties it.
pub(super) fn empty(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // A symbolic link may lead to a name that does not exist.
    options.write(true).mode(0o600).create(true);
    options.truncate(true).open(path)
}

/// Renames a file to its final name; with `keep`, only if that is free. Returns whether it did.
pub(super) fn publish(from: &Path, to: &Path, keep: bool) -> io::Result<bool> {
    if !keep {
        fs::rename(from, to)?;
        return Ok(true);
    }
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => {
            fs::remove_file(from)?;
            Ok(false)
        }
        // Not every file system supports it.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            let linked = fs::hard_link(from, to);
            fs::remove_file(from)?;
            match linked {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                linked => linked.map(|()| true),
            }
        }
        Err(e) => Err(e.into()),
    }
}

/// Creates a directory that only its owner can use for now; false if it exists.
pub(super) fn make_directory(path: &Path) -> io::Result<bool> {
    match fs::create_dir(path) {
        Ok(()) => {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
            Ok(true)
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(e) => Err(e),
    }
}

/// Creates a fifo, a socket or a device node.
pub(super) fn make_node(path: &Path, node: &Node) -> io::Result<()> {
    let kind = match node.kind {
        FileKind::Fifo => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
        FileKind::BlockDevice => FileType::BlockDevice,
        _ => FileType::CharacterDevice,
    };
    let mode = Mode::from_raw_mode(node.mode & 0o777);
    Ok(rustix::fs::mknodat(CWD, path, kind, mode, node.device)?)
}

/// Sets attributes: the owner first, as a change of owner clears set-id bits; times last.
pub(super) fn finish(path: &Path, node: &Node, owner: bool, xattrs: &[Xattr]) -> io::Result<()> {
    let link = node.kind == FileKind::Symlink;
    for xattr in xattrs {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, &*xattr.name, &xattr.value, flags).map_err(|e| {
            io::Error::other(format!("attribute {}: {e}", name::escape(&xattr.name)))
        })?;
    }
    if owner {
        std::os::unix::fs::lchown(path, Some(node.uid), Some(node.gid))?;
    }
    if !link {
        fs::set_permissions(path, fs::Permissions::from_mode(node.mode))?;
    }
    let spec = |nanos: i64| Timespec {
        tv_sec: nanos.div_euclid(1_000_000_000),
        tv_nsec: nanos.rem_euclid(1_000_000_000),
    };
    let times = Timestamps {
        last_access: spec(node.accessed),
        last_modification: spec(node.modified),
    };
    let flags = if link {
        AtFlags::SYMLINK_NOFOLLOW
    } else {
        AtFlags::empty()
    };
    Ok(rustix::fs::utimensat(CWD, path, &times, flags)?)
}

/// The extended attributes that users set; none if the file system does not support them.
pub(super) fn xattrs(path: &Path) -> io::Result<Vec<Xattr>> {
    // Nearly every file has none, or few.
    let mut small = [0; 512];
    let names = match rustix::fs::llistxattr(path, &mut small[..]) {
        Ok(length) => small[..length].to_vec(),
        Err(Errno::RANGE) => {
            let mut large = vec![0; 64 << 10];
            let length = rustix::fs::llistxattr(path, &mut large[..])?;
            large.truncate(length);
            large
        }
        Err(Errno::NOTSUP | Errno::PERM) => return Ok(Vec::new()),
        Err(e) => return Err(e.into()),
    };
    let names = names
        .split(|b| *b == 0)
        .filter(|name| name.starts_with(b"user."));
    let read = |name: &[u8]| {
        let mut value = vec![0; 64 << 10];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..])?;
        value.truncate(length);
        Ok(Xattr {
            name: name.to_vec(),
            value,
        })
    };
    names.map(read).collect()
}

/// The next range at or after `at`, below `end`, that may hold data.
pub(crate) fn next_data(file: &File, at: u64, end: u64) -> io::Result<Option<Range<u64>>> {
    if at >= end {
        return Ok(None);
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // This file system does not report holes.
        Err(Errno::INVAL | Errno::NOTSUP) => return Ok(Some(at..end)),
        Err(e) => return Err(e.into()),
    };
    let mut stop = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    while stop < end {
        match rustix::fs::seek(file, SeekFrom::Data(stop)) {
            Ok(next) if next - stop < LOCAL_HOLE_MIN => {
                stop = rustix::fs::seek(file, SeekFrom::Hole(next))?;
            }
            _ => break,
        }
    }
    Ok((start < end).then_some(start..stop.min(end)))
}

/// Fills the buffer from the file; returns how much there was.
pub(crate) fn read(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// How long a file of `size` bytes turned out to be, and whether that is because it was truncated.
/// `short`: the first byte that a read did not find. A file that ends in a hole may have been
/// truncated without any short read.
pub(super) fn end(file: &File, size: u64, short: Option<u64>) -> io::Result<(u64, bool)> {
    if let Some(short) = short {
        return Ok((short, !states_any_size(file)?));
    }
    let now = file.metadata()?.len();
    Ok((now.min(size), now < size))
}

/// Whether the file is in a pseudo file system: its files are generated as they are read, and the
/// size that they state means nothing (0 in /proc, a page in /sys).
fn states_any_size(file: &File) -> io::Result<bool> {
    let kind = rustix::fs::fstatfs(file)?.f_type;
    // From linux/magic.h: proc, sysfs, cgroup, cgroup2, debugfs, tracefs, securityfs; configfs has
    // its number to itself.
    Ok(matches!(
        kind,
        0x9fa0
            | 0x6265_6572
            | 0x0027_e0eb
            | 0x6367_7270
            | 0x6462_6720
            | 0x7472_6163
            | 0x7363_6673
            | 0x6265_6570
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_file_is_distinguished_from_one_without_a_meaningful_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [7; 100]).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.unwrap();
        assert_eq!(end(&file, 100, None).unwrap(), (100, false));
        // The file has grown: only its earlier length counts.
        assert_eq!(end(&file, 90, None).unwrap(), (90, false));
        file.set_len(40).unwrap();
        assert_eq!(end(&file, 100, None).unwrap(), (40, true));
        assert_eq!(end(&file, 100, Some(40)).unwrap(), (40, true));
        let made = File::open("/proc/version").unwrap();
        assert_eq!(end(&made, 4096, Some(23)).unwrap(), (23, false));
    }

    #[test]
    fn data_between_holes_is_found_and_small_holes_count_as_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        let file = file.unwrap();
        file.set_len(10 << 20).unwrap();
        for at in [1 << 20, (1 << 20) + 8192, 5 << 20] {
            file.write_all_at(&[7; 4096], at).unwrap();
        }
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(range) = next_data(&file, at, 10 << 20).unwrap() {
            at = range.end;
            found.push(range);
        }
        // On a file system that does not report holes, everything is data.
        assert!(found.len() <= 2, "{found:?}");
        for at in [1_u64 << 20, (1 << 20) + 8192, 5 << 20] {
            assert!(
                found
                    .iter()
                    .any(|r| r.contains(&at) && r.contains(&(at + 4095))),
                "{found:?}"
            );
        }
    }

    #[test]
    fn publishing_replaces_an_existing_file_only_if_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let [new, there] = ["new", "there"].map(|name| folder.path().join(name));
        fs::write(&there, b"old").unwrap();
        drop(create(&new).unwrap());
        assert!(create(&new).is_err());
        assert!(!publish(&new, &there, true).unwrap());
        assert_eq!(fs::read(&there).unwrap(), b"old");
        assert!(!is_there(&new).unwrap());
        drop(create(&new).unwrap());
        assert!(publish(&new, &there, false).unwrap());
        assert_eq!(fs::read(&there).unwrap(), b"");
        assert!(publish(&there, &new, true).unwrap() && !is_there(&there).unwrap());
    }

    #[test]
    fn a_path_of_any_length_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let mut path = name::bytes(folder.path().as_os_str()).to_vec();
        let root = path.clone();
        for _ in 0..60 {
            path = name::join(&path, &[b'd'; 200]);
            fs::create_dir(&ReachablePath::new(&path).unwrap().path).unwrap();
        }
        let file = name::join(&path, b"file");
        assert!(file.len() > 12_000);
        fs::write(&ReachablePath::new(&file).unwrap().path, b"deep").unwrap();
        assert_eq!(
            fs::read(&ReachablePath::new(&file).unwrap().path).unwrap(),
            b"deep"
        );
        assert!(
            is_there(
                &ReachablePath::new(&[&path[..], b"/"].concat())
                    .unwrap()
                    .path
            )
            .unwrap()
        );
        assert!(ReachablePath::new(&name::join(&root, &[b'x'; 5000])).is_ok());
        fs::remove_dir_all(folder.path().join("d".repeat(200))).unwrap();
    }

    #[test]
    fn times_and_modes_are_set_to_the_nanosecond() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        drop(create(&path).unwrap());
        let node = stat(&path, false).unwrap().unwrap();
        let wanted = Node {
            mode: 0o4751,
            modified: -1_234_567_891,
            accessed: 123_456_789,
            ..node
        };
        finish(&path, &wanted, false, &[]).unwrap();
        let got = stat(&path, false).unwrap().unwrap();
        assert_eq!(
            (got.mode, got.modified, got.accessed),
            (0o4751, -1_234_567_891, 123_456_789)
        );
    }
}
