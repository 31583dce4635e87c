//! Inodes and entries: every name leads to an inode, every inode has its names, every directory
//! leads to the root.

use std::ops::{Bound, ControlFlow};

use weft_kv::scan_prefix;
use weft_layout::Layout;
use weft_proto::fsck::Fault;
use weft_proto::meta::{self, FileKind, ROOT};

use super::contradiction::contradiction;
use super::damaged::RecordSpace;
use super::distinct::distinct;
use super::entry_counts::EntryCounts;
use super::finding::{count_finding, entry_finding, finding_about};
use super::pass::Pass;
use crate::error::MetaError;
use crate::intents::is_tree;
use crate::records::keys::{self, ENTRIES, INODES, ORPHANS, readable};
use crate::records::record::InodeRecord;

/// An inode whose names are being counted.
struct Counted {
    id: u64,
    kind: i32,
    links: u32,
    /// As the inode says.
    parent: u64,
    /// The parent of an entry that names it.
    named_in: u64,
    names: u32,
}

/// Inodes in the order of their ids, and where to continue.
type Window = (Vec<(u64, InodeRecord)>, Option<u64>);

/// A kind as findings carry it.
fn number_of(kind: i32) -> u64 {
    u64::from(kind.cast_unsigned())
}

impl Pass<'_> {
    /// Checks all inodes, `window` at a time.
    pub(super) fn inodes(&mut self, window: usize) -> Result<(), MetaError> {
        let mut from = 0;
        loop {
            let (inodes, next) = self.window(from, window)?;
            let mut counts = Vec::with_capacity(inodes.len());
            for (id, inode) in inodes {
                // Images are named by their checkpoint, and never change.
                if inode.frozen.is_some() {
                    continue;
                }
                self.alone(id, &inode)?;
                counts.push(Counted {
                    id,
                    kind: inode.kind,
                    links: inode.links,
                    parent: inode.parent,
                    named_in: 0,
                    names: 0,
                });
                if self.seen(1, 1).is_break() {
                    return Ok(());
                }
            }
            self.count_names(&mut counts)?;
            for count in counts {
                self.check_names(&count)?;
            }
            match next {
                Some(next) if !self.is_stopped() => from = next,
                _ => return Ok(()),
            }
        }
    }

    /// Inodes from an id on, without their ACLs; and where to continue.
    fn window(&mut self, from: u64, most: usize) -> Result<Window, MetaError> {
        let (mut found, mut bad, mut next) = (Vec::new(), Vec::new(), None);
        let start = from.to_be_bytes();
        let all = (Bound::Included(&start[..]), Bound::Unbounded);
        self.reader()
            .scan(INODES, all.0, all.1, &mut |key, value| {
                let Some(id) = keys::number(key).filter(|_| key.len() == 8) else {
                    return ControlFlow::Continue(());
                };
                if found.len() == most {
                    next = Some(id);
                    return ControlFlow::Break(());
                }
                match keys::decode::<InodeRecord>("inode", id, value) {
                    Ok(mut inode) => {
                        inode.acl = None;
                        inode.default_acl = None;
                        found.push((id, inode));
                    }
                    Err(error) => bad.push(RecordSpace::Inodes.finding(key, &error)),
                }
                ControlFlow::Continue(())
            })?;
        for finding in bad {
            self.found(finding);
        }
        Ok((found, next))
    }

    /// Checks an inode against itself and the records under its id.
    fn alone(&mut self, id: u64, inode: &InodeRecord) -> Result<(), MetaError> {
        if let Some(reason) = contradiction(inode) {
            let key = id.to_be_bytes();
            self.found(RecordSpace::Inodes.finding(&key, reason));
        }
        if inode.is(FileKind::Regular) {
            let layout = inode.layout.as_ref().map(meta::Layout::from);
            let sound = layout.is_some_and(|layout| Layout::try_from(&layout).is_ok());
            if !sound {
                self.found(finding_about(Fault::NoLayout, id));
            }
            self.truncate(id, inode)?;
        }
        if !inode.is_directory() {
            return Ok(());
        }
        let inside = self.inside(id)?;
        if inside.entries != inode.size {
            self.found(count_finding(
                Fault::Entries,
                id,
                inside.entries,
                inode.size,
            ));
        }
        let links = 2 + inside.directories;
        if inode.links != 0 && inode.links != links {
            self.found(count_finding(
                Fault::Links,
                id,
                links.into(),
                inode.links.into(),
            ));
        }
        self.climb(id, inode.parent)
    }

    fn truncate(&mut self, id: u64, inode: &InodeRecord) -> Result<(), MetaError> {
        if inode.truncate == 0 {
            return Ok(());
        }
        let intent = match keys::intent(self.reader(), inode.truncate) {
            Err(MetaError::Corrupt { .. }) => return Ok(()),
            intent => intent?,
        };
        if intent.is_none_or(|intent| intent.file != id && !is_tree(&intent)) {
            self.found(count_finding(Fault::TruncateLost, id, 0, inode.truncate));
        }
        Ok(())
    }

    /// Checks a directory's entries against the inodes that they name.
    fn inside(&mut self, id: u64) -> Result<EntryCounts, MetaError> {
        let (mut inside, mut failed, mut findings) = (EntryCounts::default(), None, Vec::new());
        let mut records = 0;
        let reader = self.reader();
        scan_prefix(reader, ENTRIES, &id.to_be_bytes(), &mut |key, value| {
            records += 1;
            let name = &key[8..];
            let record = match keys::entry_in(id, value) {
                Ok(record) => record,
                Err(error) => {
                    findings.push(RecordSpace::Entries.finding(key, &error));
                    inside.entries += 1;
                    return ControlFlow::Continue(());
                }
            };
            inside.entries += 1;
            inside.directories += u32::from(record.kind == FileKind::Directory as i32);
            match keys::inode(reader, record.id) {
                Ok(Some(inode)) if inode.kind != record.kind => {
                    let kinds = (number_of(inode.kind), number_of(record.kind));
                    let mut finding = entry_finding(Fault::EntryKind, record.id, id, name);
                    (finding.expected, finding.found) = kinds;
                    findings.push(finding);
                }
                Ok(Some(_)) | Err(MetaError::Corrupt { .. }) => {}
                Ok(None) => {
                    let mut finding = entry_finding(Fault::NoInode, record.id, id, name);
                    finding.found = number_of(record.kind);
                    findings.push(finding);
                }
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        for finding in findings {
            self.found(finding);
        }
        let _ = self.seen(records, 0);
        failed.map_or(Ok(inside), Err)
    }

    /// Follows the parents of a directory to the root. A cycle is reported once, at its smallest
    /// id.
    fn climb(&mut self, id: u64, parent: u64) -> Result<(), MetaError> {
        let (mut at, mut steps, mut power, mut mark) = (parent, 0_u64, 1_u64, id);
        while at != ROOT && at != mark {
            steps += 1;
            if steps == power {
                (power, mark, steps) = (power * 2, at, 0);
            }
            match readable(self.reader(), at)? {
                Some(inode) if inode.is_directory() => at = inode.parent,
                // The pass over that parent reports it.
                Some(_) | None => return Ok(()),
            }
        }
        if at == ROOT {
            return Ok(());
        }
        // Only directories in the cycle count, not those below it.
        let (mut smallest, mut on, mut inside) = (at, at, false);
        loop {
            inside |= on == id;
            smallest = smallest.min(on);
            on = match readable(self.reader(), on)? {
                Some(inode) => inode.parent,
                None => return Ok(()),
            };
            if on == at {
                break;
            }
        }
        if inside && smallest == id {
            self.found(finding_about(Fault::Circle, id));
        }
        Ok(())
    }

    /// Counts the names of some inodes in one scan of all entries.
    fn count_names(&mut self, counts: &mut [Counted]) -> Result<(), MetaError> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        self.reader()
            .scan(ENTRIES, all.0, all.1, &mut |key, value| {
                let parent = keys::number(key).unwrap_or(0);
                // Unreadable entries were reported with their directory.
                let Ok(record) = keys::entry_in(parent, value) else {
                    return ControlFlow::Continue(());
                };
                let Ok(at) = counts.binary_search_by_key(&record.id, |c| c.id) else {
                    return ControlFlow::Continue(());
                };
                let count = &mut counts[at];
                count.names += 1;
                // Of several names of a directory the one in its recorded parent counts.
                if count.named_in != count.parent || count.names == 1 {
                    count.named_in = parent;
                }
                ControlFlow::Continue(())
            })?;
        Ok(())
    }

    fn check_names(&mut self, count: &Counted) -> Result<(), MetaError> {
        let id = count.id;
        let orphan = self.reader().get(ORPHANS, &id.to_be_bytes())?.is_some();
        let named = count.names > 0 || id == ROOT;
        if !named && !orphan {
            self.found(finding_about(Fault::NoName, id));
            return Ok(());
        }
        if named && orphan {
            self.found(finding_about(Fault::Orphan, id));
        }
        if count.kind == FileKind::Directory as i32 {
            // The root has no name.
            let most = u32::from(id != ROOT);
            if count.names > most {
                let (most, found) = (most.into(), count.names.into());
                self.found(count_finding(Fault::SecondName, id, most, found));
            }
            if named && count.links == 0 {
                self.found(count_finding(Fault::Links, id, 2, 0));
            }
            let parent = if id == ROOT { ROOT } else { count.named_in };
            if named && count.parent != parent {
                self.found(count_finding(Fault::Parent, id, parent, count.parent));
            }
        } else if count.links != count.names {
            let (expected, found) = (count.names.into(), count.links.into());
            self.found(count_finding(Fault::Links, id, expected, found));
        }
        Ok(())
    }

    /// Reports entries whose parent is no directory.
    pub(super) fn entries_of_no_directory(&mut self) -> Result<(), MetaError> {
        let reader = self.reader();
        distinct(reader, ENTRIES, |id| {
            match keys::inode(reader, id) {
                Ok(Some(inode)) if inode.is_directory() => {}
                Ok(Some(_)) => self.found(finding_about(Fault::NoDirectory, id)),
                Ok(None) => {
                    let mut finding = finding_about(Fault::NoInode, id);
                    finding.found = FileKind::Directory as u64;
                    "it has entries".clone_into(&mut finding.text);
                    self.found(finding);
                }
                Err(MetaError::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
            Ok(self.seen(1, 0))
        })
    }
}
