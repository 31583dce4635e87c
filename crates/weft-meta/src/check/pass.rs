//! A check under way, and how its findings are made.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use weft_kv::{BadFile, Mend, Reader, Space, prefix_end};
use weft_proto::fsck::{Fault, Finding};

use weft_proto::meta::FileKind;

use crate::error::MetaError;
use crate::records::keys;
use crate::records::record::InodeRecord;
use crate::tx::Volume;

/// Inodes whose names are counted in one scan of the entries.
const WINDOW: usize = 1 << 20;

/// Where a check tells how far it is and what it found; breaking ends it.
pub trait Watcher {
    /// This many records and inodes more were looked at.
    fn seen(&mut self, records: u64, files: u64) -> ControlFlow<()>;
    /// Something is wrong.
    fn found(&mut self, finding: Finding);
}

pub(crate) fn check(volume: &Volume, watcher: &mut dyn Watcher) -> Result<(), MetaError> {
    for file in volume.state().kv().files()? {
        if let Some(bad) = volume.state().kv().verify(&file)?.1 {
            watcher.found(index_finding(&bad));
        }
        if watcher.seen(0, 0).is_break() {
            return Ok(());
        }
    }
    volume.read(|reader| {
        let mut pass = Pass {
            reader,
            watcher,
            stopped: false,
        };
        pass.inodes(WINDOW)?;
        pass.entries_of_no_directory()?;
        pass.related()
    })
}

/// A check under way.
pub(super) struct Pass<'a> {
    pub(super) reader: &'a dyn Reader,
    pub(super) watcher: &'a mut dyn Watcher,
    /// The watcher does not want any more.
    pub(super) stopped: bool,
}

impl Pass<'_> {
    pub(super) fn seen(&mut self, records: u64, files: u64) -> ControlFlow<()> {
        let on = self.watcher.seen(records, files);
        self.stopped |= on.is_break();
        on
    }

    pub(super) fn found(&mut self, finding: Finding) {
        self.watcher.found(finding);
    }
}

/// A file of an engine that is not what was written, as it is told to `weft fsck`.
pub fn index_finding(bad: &BadFile) -> Finding {
    let anew = bad.mend == Mend::Anew;
    Finding {
        fault: Fault::IndexRecord as i32,
        text: bad.to_string(),
        repaired: anew,
        done: if anew { "made anew" } else { "" }.to_owned(),
        ..Finding::default()
    }
}

/// A finding about an inode.
pub(super) fn finding_about(fault: Fault, file: u64) -> Finding {
    Finding {
        fault: fault as i32,
        file,
        ..Finding::default()
    }
}

/// A finding about a number that is another than it should be.
pub(super) fn count_finding(fault: Fault, file: u64, expected: u64, found: u64) -> Finding {
    Finding {
        expected,
        found,
        ..finding_about(fault, file)
    }
}

/// A finding about an entry.
pub(super) fn entry_finding(fault: Fault, file: u64, parent: u64, name: &[u8]) -> Finding {
    Finding {
        parent,
        name: Bytes::copy_from_slice(name),
        ..finding_about(fault, file)
    }
}

/// A record that cannot be read; `space` and the key tell a repair which.
pub(super) fn damaged_record(space: Space, key: &[u8], error: &MetaError) -> Finding {
    Finding {
        name: Bytes::copy_from_slice(key),
        text: format!("{}: {error}", space.0),
        ..finding_about(Fault::Record, keys::number(key).unwrap_or(0))
    }
}

/// What an inode says that cannot be so, whatever other records say.
pub(super) fn contradiction(inode: &InodeRecord) -> Option<&'static str> {
    let of_files = inode.layout.is_some() || inode.inline || inode.truncate != 0;
    match FileKind::try_from(inode.kind) {
        Err(_) | Ok(FileKind::Unspecified) => Some("it is of no kind"),
        Ok(FileKind::Regular) if inode.inline && !inode.size_exact => {
            Some("the size of an inline file is not exact")
        }
        Ok(FileKind::Regular) if inode.inline && inode.truncate != 0 => {
            Some("an inline file waits for a truncate")
        }
        Ok(FileKind::Regular) if inode.truncate != 0 && inode.size_exact => {
            Some("its size is exact while a truncate is owed")
        }
        Ok(kind) if kind != FileKind::Regular && of_files => Some("a layout of what is no file"),
        _ => None,
    }
}

/// Visits the numbers that keys of a space begin with, each once, from `from` on, by a seek each.
pub(super) fn distinct(
    reader: &dyn Reader,
    space: Space,
    mut visit: impl FnMut(u64) -> Result<ControlFlow<()>, MetaError>,
) -> Result<(), MetaError> {
    let mut from = Vec::new();
    loop {
        let mut next = None;
        reader.scan(
            space,
            Bound::Included(&from),
            Bound::Unbounded,
            &mut |key, _| {
                next = keys::number(key);
                ControlFlow::Break(())
            },
        )?;
        let Some(id) = next else { return Ok(()) };
        if visit(id)?.is_break() {
            return Ok(());
        }
        match prefix_end(&id.to_be_bytes()) {
            Some(end) => from = end,
            None => return Ok(()),
        }
    }
}
