//! Replies in the kernel's structures.

use std::time::Duration;

use weft_client::FileKind;
use zerocopy::IntoBytes;

use crate::fs::{self, Entry, Opened};
use crate::fuse::device::abi::{Attr, AttrOut, Dirent, EntryOut, OpenOut, fopen};

const NANOS: i64 = 1_000_000_000;

fn seconds(nanos: i64) -> (u64, u32) {
    // Times before the epoch have negative seconds, which the kernel understands.
    (
        nanos.div_euclid(NANOS).cast_unsigned(),
        nanos.rem_euclid(NANOS) as u32,
    )
}

/// Nanoseconds since the epoch; saturates at 64 bits.
pub(super) fn nanos(seconds: u64, nanos: u32) -> i64 {
    let seconds = seconds.cast_signed();
    seconds.saturating_mul(NANOS).saturating_add(nanos.into())
}

pub(super) fn attr(a: &fs::Attr) -> Attr {
    let (atime, atimensec) = seconds(a.accessed);
    let (mtime, mtimensec) = seconds(a.modified);
    let (ctime, ctimensec) = seconds(a.changed);
    Attr {
        ino: a.id,
        size: a.size,
        blocks: a.blocks(),
        atime,
        mtime,
        ctime,
        atimensec,
        mtimensec,
        ctimensec,
        mode: a.full_mode(),
        nlink: a.links,
        uid: a.uid,
        gid: a.gid,
        rdev: a.device,
        blksize: a.block_size,
        flags: 0,
    }
}

fn valid(duration: Duration) -> (u64, u32) {
    (duration.as_secs(), duration.subsec_nanos())
}

pub(super) fn entry(e: &Entry) -> EntryOut {
    let (entry_valid, entry_valid_nsec) = valid(e.entry_valid);
    let (attr_valid, attr_valid_nsec) = valid(e.attr_valid);
    EntryOut {
        nodeid: e.attr.id,
        generation: 0,
        entry_valid,
        attr_valid,
        entry_valid_nsec,
        attr_valid_nsec,
        attr: attr(&e.attr),
    }
}

/// A negative entry: the name does not exist.
pub(super) fn no_entry(duration: Duration) -> EntryOut {
    let (entry_valid, entry_valid_nsec) = valid(duration);
    EntryOut {
        entry_valid,
        entry_valid_nsec,
        ..EntryOut::default()
    }
}

pub(super) fn attr_out(e: &Entry) -> AttrOut {
    let (attr_valid, attr_valid_nsec) = valid(e.attr_valid);
    AttrOut {
        attr_valid,
        attr_valid_nsec,
        dummy: 0,
        attr: attr(&e.attr),
    }
}

pub(super) fn opened(o: &Opened) -> OpenOut {
    let mut open_flags = 0;
    for (on, flag) in [
        (o.direct, fopen::DIRECT_IO),
        (o.keep_pages, fopen::KEEP_CACHE),
        (o.parallel, fopen::PARALLEL_DIRECT_WRITES),
    ] {
        if on {
            open_flags |= flag;
        }
    }
    OpenOut {
        fh: o.handle,
        open_flags,
        backing_id: 0,
    }
}

/// Whether a listing brings attributes along.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Entries {
    /// READDIR.
    NamesOnly,
    /// READDIRPLUS.
    WithAttributes,
}

/// The reply to a listing, filled up to the size that the kernel asked for.
pub(super) struct Names {
    bytes: Vec<u8>,
    limit: usize,
}

impl Names {
    pub(super) fn new(limit: usize) -> Names {
        let bytes = Vec::with_capacity(limit.min(64 << 10));
        Names { bytes, limit }
    }

    /// Whether another name still fits.
    pub(super) fn fits(&self, name: &[u8], entries: Entries) -> bool {
        let entry = match entries {
            Entries::NamesOnly => 0,
            Entries::WithAttributes => size_of::<EntryOut>(),
        };
        let head = size_of::<Dirent>() + entry;
        self.bytes.len() + (head + name.len()).next_multiple_of(8) <= self.limit
    }

    /// Adds a name, for READDIRPLUS with its entry.
    pub(super) fn add(&mut self, listed: &fs::Listed, entry: Option<&EntryOut>) {
        if let Some(entry) = entry {
            self.bytes.extend_from_slice(entry.as_bytes());
        }
        let dirent = Dirent {
            ino: listed.id,
            off: listed.cookie,
            namelen: listed.name.len() as u32,
            kind: dirent_kind(listed.kind),
        };
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(&listed.name);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.bytes
    }
}

fn dirent_kind(kind: FileKind) -> u32 {
    let kind = match kind {
        FileKind::Directory => libc::DT_DIR,
        FileKind::Symlink => libc::DT_LNK,
        FileKind::Fifo => libc::DT_FIFO,
        FileKind::Socket => libc::DT_SOCK,
        FileKind::BlockDevice => libc::DT_BLK,
        FileKind::CharDevice => libc::DT_CHR,
        FileKind::Regular => libc::DT_REG,
        FileKind::Unspecified => libc::DT_UNKNOWN,
    };
    kind.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn times_survive_the_round_trip_to_the_kernel(time in any::<i64>()) {
            let (whole, part) = seconds(time);
            prop_assert!(part < 1_000_000_000);
            if time > i64::MIN + NANOS {
                prop_assert_eq!(nanos(whole, part), time);
            }
        }
    }

    #[test]
    fn times_beyond_64_bits_saturate() {
        assert_eq!(nanos(u64::MAX >> 1, 0), i64::MAX);
        assert_eq!(nanos((-1_i64).cast_unsigned(), 999_999_999), -1);
    }
}
