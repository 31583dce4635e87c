//! A directory and its open files.

#![allow(unsafe_code)] // maps of files, and truncate(2), which no safe wrapper has

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, SeekFrom, Stat,
    Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::op::{Moment, Op, OpenFlag, Rename, Room, SLOTS, SetHow};
use super::state::{Seen, runs};

/// The outcome of an operation.
#[derive(PartialEq)]
pub enum Outcome {
    Done,
    /// There was no file to operate on.
    Skipped,
    Count(usize),
    Data(Vec<u8>),
    /// Where a hole or data begins, which was verified.
    Hole(u64),
    Refused(Errno),
    /// A result that is wrong on any file system.
    Wrong(String),
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Done => write!(f, "done"),
            Outcome::Skipped => write!(f, "skipped"),
            Outcome::Count(count) => write!(f, "{count}"),
            Outcome::Data(data) => write!(f, "{}", runs(data)),
            Outcome::Hole(at) => write!(f, "at {at}"),
            Outcome::Refused(errno) => write!(f, "{errno:?}"),
            Outcome::Wrong(why) => write!(f, "{why}"),
        }
    }
}

impl From<Result<(), Errno>> for Outcome {
    fn from(result: Result<(), Errno>) -> Outcome {
        result.map_or_else(Outcome::Refused, |()| Outcome::Done)
    }
}

/// A directory and its open files.
pub struct World {
    pub root: PathBuf,
    slots: [Option<OwnedFd>; SLOTS],
    /// The mount, as opposed to the model.
    ours: bool,
}

/// Bytes that depend on their offset.
fn pattern(fill: u8, length: usize) -> Vec<u8> {
    (0..length)
        .map(|i| fill.wrapping_add((i % 251) as u8))
        .collect()
}

impl World {
    pub fn new(root: PathBuf, ours: bool) -> World {
        World {
            root,
            slots: Default::default(),
            ours,
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The state of an open file, also an unlinked one. For unlinked directories and fifos only
    /// that they are gone: they are not attached, so a volume drops them with their last name.
    pub fn open_state(&self, slot: usize, began: i64) -> Option<(Seen, Option<Vec<u8>>)> {
        let stat = self.stat(slot)?;
        // Its bytes are compared only if no path leads to them.
        let bytes =
            (stat.st_nlink == 0).then(|| self.read(slot, 0, stat.st_size.cast_unsigned() as usize));
        Some((Seen::of(&stat, began), bytes.and_then(Result::ok)))
    }

    fn stat(&self, slot: usize) -> Option<Stat> {
        let stat = match rustix::fs::fstat(self.slots[slot].as_ref()?) {
            Err(Errno::STALE) if self.ours => return None,
            stat => stat.unwrap(),
        };
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        (regular || stat.st_nlink > 0).then_some(stat)
    }

    fn slot(&self, slot: usize) -> Result<&OwnedFd, Outcome> {
        self.slots[slot].as_ref().ok_or(Outcome::Skipped)
    }

    fn read(&self, slot: usize, offset: u64, length: usize) -> Result<Vec<u8>, Outcome> {
        let file = self.slot(slot)?;
        let mut data = vec![0; length];
        let count = rustix::io::pread(file, &mut data, offset).map_err(Outcome::Refused)?;
        data.truncate(count);
        Ok(data)
    }

    fn is_regular(&self, slot: usize) -> bool {
        self.stat(slot)
            .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    fn size(&self, slot: usize) -> u64 {
        self.stat(slot)
            .map_or(0, |stat| stat.st_size.cast_unsigned())
    }

    pub fn apply(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Open {
                slot,
                path,
                flags,
                mode,
            } => {
                self.slots[*slot] = None;
                match rustix::fs::open(
                    self.at(path),
                    open_flags(flags),
                    Mode::from_bits_truncate(*mode),
                ) {
                    Ok(file) => {
                        self.slots[*slot] = Some(file);
                        Outcome::Done
                    }
                    Err(e) => Outcome::Refused(e),
                }
            }
            Op::Close { slot } => {
                self.slots[*slot] = None;
                Outcome::Done
            }
            _ => self.on_data(op).unwrap_or_else(|outcome| outcome),
        }
    }

    fn on_data(&self, op: &Op) -> Result<Outcome, Outcome> {
        match op {
            Op::Read {
                slot,
                offset,
                length,
            } => self.read(*slot, *offset, *length).map(Outcome::Data),
            Op::Write {
                slot,
                offset,
                length,
                fill,
            } => {
                let data = pattern(*fill, *length);
                let count = rustix::io::pwrite(self.slot(*slot)?, &data, *offset);
                count.map(Outcome::Count).map_err(Outcome::Refused)
            }
            Op::TruncateOpen { slot, size } => {
                Ok(rustix::fs::ftruncate(self.slot(*slot)?, *size).into())
            }
            Op::Sync { slot } => Ok(rustix::fs::fsync(self.slot(*slot)?).into()),
            Op::Allocate {
                slot,
                kind,
                offset,
                length,
            } => self.allocate(*slot, *kind, *offset, *length),
            Op::SeekData { slot, offset } => self.seek(*slot, *offset, false),
            Op::SeekHole { slot, offset } => self.seek(*slot, *offset, true),
            Op::Copy {
                from,
                at,
                to,
                there,
                length,
            } => self.copy((*from, *at), (*to, *there), *length),
            Op::WriteMapped {
                slot,
                offset,
                length,
                fill,
            } => self.mapped(*slot, *offset, *length, Some(*fill)),
            Op::ReadMapped {
                slot,
                offset,
                length,
            } => self.mapped(*slot, *offset, *length, None),
            Op::TimesOpen { slot, modified } => Ok(rustix::fs::futimens(
                self.slot(*slot)?,
                &stamps(Moment::Omit, *modified),
            )
            .into()),
            _ => Ok(self.on_names(op)),
        }
    }

    fn on_names(&self, op: &Op) -> Outcome {
        let result = match op {
            Op::Rename { from, to, how } => {
                let flags = match how {
                    Rename::Replace => RenameFlags::empty(),
                    Rename::NoReplace => RenameFlags::NOREPLACE,
                    Rename::Exchange => RenameFlags::EXCHANGE,
                    Rename::Both => RenameFlags::NOREPLACE | RenameFlags::EXCHANGE,
                };
                rustix::fs::renameat_with(CWD, self.at(from), CWD, self.at(to), flags)
            }
            Op::Link { from, to } => {
                rustix::fs::linkat(CWD, self.at(from), CWD, self.at(to), AtFlags::empty())
            }
            Op::Unlink { path } => rustix::fs::unlink(self.at(path)),
            Op::Symlink { path, text } => rustix::fs::symlink(text, self.at(path)),
            Op::Mkdir { path, mode } => {
                rustix::fs::mkdir(self.at(path), Mode::from_bits_truncate(*mode))
            }
            Op::Rmdir { path } => rustix::fs::rmdir(self.at(path)),
            Op::MakeNode { path, fifo, mode } => {
                let kind = if *fifo {
                    FileType::Fifo
                } else {
                    FileType::RegularFile
                };
                rustix::fs::mknodat(CWD, self.at(path), kind, Mode::from_bits_truncate(*mode), 0)
            }
            _ => self.on_attributes(op),
        };
        result.into()
    }

    fn on_attributes(&self, op: &Op) -> Result<(), Errno> {
        match op {
            Op::Chmod { path, mode } => {
                rustix::fs::chmod(self.at(path), Mode::from_bits_truncate(*mode))
            }
            Op::Chown { path, uid, gid } => {
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                rustix::fs::chownat(CWD, self.at(path), uid, gid, AtFlags::SYMLINK_NOFOLLOW)
            }
            Op::Times {
                path,
                accessed,
                modified,
            } => rustix::fs::utimensat(
                CWD,
                self.at(path),
                &stamps(*accessed, *modified),
                AtFlags::SYMLINK_NOFOLLOW,
            ),
            Op::Truncate { path, size } => truncate(&self.at(path), *size),
            Op::SetAttribute {
                path,
                name,
                value,
                how,
            } => {
                let flags = match how {
                    SetHow::Either => XattrFlags::empty(),
                    SetHow::Create => XattrFlags::CREATE,
                    SetHow::Replace => XattrFlags::REPLACE,
                };
                rustix::fs::lsetxattr(self.at(path), format!("user.n{name}"), value, flags)
            }
            Op::RemoveAttribute { path, name } => {
                rustix::fs::lremovexattr(self.at(path), format!("user.n{name}"))
            }
            _ => unreachable!("{op:?} is carried out elsewhere"),
        }
    }

    /// Local file systems differ in the supported kinds: the model writes zeros if it cannot clear.
    fn allocate(
        &self,
        slot: usize,
        kind: Room,
        offset: u64,
        length: u64,
    ) -> Result<Outcome, Outcome> {
        let file = self.slot(slot)?;
        let flags = match kind {
            Room::Make => FallocateFlags::empty(),
            Room::MakeKeepSize => FallocateFlags::KEEP_SIZE,
            Room::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Room::Zero => FallocateFlags::ZERO_RANGE,
            Room::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            Room::Collapse => FallocateFlags::COLLAPSE_RANGE,
            Room::Insert => FallocateFlags::INSERT_RANGE,
        };
        if !self.is_regular(slot) {
            return Err(Outcome::Skipped);
        }
        let moves = matches!(kind, Room::Collapse | Room::Insert);
        if moves && !self.ours {
            // A volume does not support shifting ranges, even if the model does: the kernel's
            // checks come first.
            let flags = rustix::fs::fcntl_getfl(file).map_err(Outcome::Refused)?;
            return Ok(Outcome::Refused(match flags & OFlags::RWMODE {
                _ if length == 0 => Errno::INVAL,
                OFlags::RDONLY => Errno::BADF,
                _ => Errno::OPNOTSUPP,
            }));
        }
        match rustix::fs::fallocate(file, flags, offset, length) {
            Err(Errno::OPNOTSUPP) if !self.ours => self.zeros(slot, kind, offset, length),
            result => Ok(result.into()),
        }
    }

    fn zeros(&self, slot: usize, kind: Room, offset: u64, length: u64) -> Result<Outcome, Outcome> {
        let file = self.slot(slot)?;
        let keeps = !matches!(kind, Room::Zero);
        let end = if keeps {
            (offset + length).min(self.size(slot))
        } else {
            offset + length
        };
        let zeros = vec![0; end.saturating_sub(offset) as usize];
        rustix::io::pwrite(file, &zeros, offset).map_err(Outcome::Refused)?;
        Ok(Outcome::Done)
    }

    /// There may only be zeros between the requested offset and the data, and after the beginning
    /// of a hole.
    fn seek(&self, slot: usize, offset: u64, hole: bool) -> Result<Outcome, Outcome> {
        let file = self.slot(slot)?;
        if !self.is_regular(slot) {
            return Err(Outcome::Skipped);
        }
        let from = if hole {
            SeekFrom::Hole(offset)
        } else {
            SeekFrom::Data(offset)
        };
        let found = rustix::fs::seek(file, from);
        let size = self.size(slot);
        let Ok(bytes) = self.read(slot, offset, size.saturating_sub(offset) as usize) else {
            return Ok(Outcome::Skipped);
        };
        let zeros = bytes.iter().take_while(|b| **b == 0).count() as u64;
        let true_found = match found {
            Err(Errno::NXIO) if hole || offset >= size => offset >= size,
            Err(Errno::NXIO) => zeros == bytes.len() as u64,
            Err(e) => return Ok(Outcome::Refused(e)),
            Ok(at) if hole => {
                at >= offset && at <= size && (at == size || bytes[(at - offset) as usize] == 0)
            }
            Ok(at) => at >= offset && at < size && at <= offset + zeros,
        };
        if true_found {
            return Ok(Outcome::Hole(found.unwrap_or(u64::MAX)));
        }
        Ok(Outcome::Wrong(format!(
            "hole {hole} at {found:?} of {size} with {zeros} zeros"
        )))
    }

    /// Copies everything, in as many calls as needed.
    fn copy(
        &self,
        (from, at): (usize, u64),
        (to, there): (usize, u64),
        length: usize,
    ) -> Result<Outcome, Outcome> {
        let (source, target) = (self.slot(from)?, self.slot(to)?);
        if !self.is_regular(from) || !self.is_regular(to) {
            return Err(Outcome::Skipped);
        }
        let (mut at, mut there, mut done) = (at, there, 0);
        loop {
            let copied = rustix::fs::copy_file_range(
                source,
                Some(&mut at),
                target,
                Some(&mut there),
                length - done,
            );
            match copied {
                Ok(0) => return Ok(Outcome::Count(done)),
                Ok(count) => done += count,
                Err(e) => return Ok(Outcome::Refused(e)),
            }
            if done == length {
                return Ok(Outcome::Count(done));
            }
        }
    }

    /// Reads, or writes and syncs, as much of a range as there is, through a shared map.
    fn mapped(
        &self,
        slot: usize,
        offset: u64,
        length: usize,
        fill: Option<u8>,
    ) -> Result<Outcome, Outcome> {
        const PAGE: u64 = 4096;
        let open = self.slot(slot)?;
        let end = (offset + length as u64).min(self.size(slot));
        if !self.is_regular(slot) || offset >= end {
            return Err(Outcome::Skipped);
        }
        let start = offset / PAGE * PAGE;
        let (whole, before) = ((end - start) as usize, (offset - start) as usize);
        let protection = libc::PROT_READ | if fill.is_some() { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new map of an open file; nothing else in this process shortens the file while
        // the map lives.
        let map = unsafe {
            let descriptor = open.as_raw_fd();
            libc::mmap(
                std::ptr::null_mut(),
                whole,
                protection,
                libc::MAP_SHARED,
                descriptor,
                start.cast_signed(),
            )
        };
        if map == libc::MAP_FAILED {
            return Ok(Outcome::Refused(last_error()));
        }
        // SAFETY: `whole` bytes were mapped, `before` of them lie before the range, and all lie
        // before the file's end.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(map.cast::<u8>().add(before), whole - before) };
        let outcome = if let Some(fill) = fill {
            bytes.copy_from_slice(&pattern(fill, bytes.len()));
            // SAFETY: the map as it was made.
            match unsafe { libc::msync(map, whole, libc::MS_SYNC) } {
                0 => Outcome::Done,
                _ => Outcome::Refused(last_error()),
            }
        } else {
            Outcome::Data(bytes.to_vec())
        };
        // SAFETY: the map as it was made; no reference into it is used any more.
        unsafe { libc::munmap(map, whole) };
        Ok(outcome)
    }
}

fn open_flags(flags: &[OpenFlag]) -> OFlags {
    // Opening a fifo must not wait for its other end.
    let always = OFlags::NONBLOCK | OFlags::CLOEXEC;
    flags.iter().fold(always, |all, flag| {
        all | match flag {
            OpenFlag::Write => OFlags::WRONLY,
            OpenFlag::ReadWrite => OFlags::RDWR,
            OpenFlag::Create => OFlags::CREATE,
            OpenFlag::Exclusive => OFlags::EXCL,
            OpenFlag::Truncate => OFlags::TRUNC,
            OpenFlag::Append => OFlags::APPEND,
            OpenFlag::NoFollow => OFlags::NOFOLLOW,
            OpenFlag::Directory => OFlags::DIRECTORY,
        }
    })
}

fn stamps(accessed: Moment, modified: Moment) -> Timestamps {
    let time = |moment| match moment {
        Moment::Omit => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        Moment::Now => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        },
        Moment::At { seconds, nanos } => Timespec {
            tv_sec: seconds,
            tv_nsec: nanos,
        },
    };
    Timestamps {
        last_access: time(accessed),
        last_modification: time(modified),
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()
}

fn truncate(path: &std::path::Path, size: u64) -> Result<(), Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends with a zero and outlives the call.
    match unsafe { libc::truncate(path.as_ptr(), size.cast_signed()) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}
