//! Records that belong to an inode (attributes, inline bytes, checkpoints, orphans, intents), and
//! the counters.

use std::ops::{Bound, ControlFlow};

use prost::Message;
use weft_kv::scan_prefix;
use weft_proto::fsck::{Fault, Finding};
use weft_proto::meta::FileKind;

use super::damaged::RecordSpace;
use super::distinct::distinct;
use super::finding::{count_finding, finding_about};
use super::pass::Pass;
use crate::error::MetaError;
use crate::intents::Intent;
use crate::quota::{corrected, count_usage, stored_records};
use crate::records::keys::{self, INLINE, INODES, INTENTS, QUOTAS, XATTRS};
use crate::records::record::{
    CheckpointRecord, InlineRecord, InodeRecord, IntentRecord, OrphanRecord, XattrRecord,
};

/// What the records under one id add up to.
#[derive(Default)]
struct Sums {
    /// Bytes of names and values.
    xattrs: u64,
    /// Bytes of inline data; `None`: there is no record.
    inline: Option<u64>,
}

impl Pass<'_> {
    /// Checks the records that belong to inodes, and the counters.
    pub(super) fn related(&mut self) -> Result<(), MetaError> {
        self.owned::<XattrRecord>(RecordSpace::Xattrs, "attributes", |key, record, sums| {
            sums.xattrs += (key.len() - 8 + record.value.len()) as u64;
        })?;
        self.owned::<InlineRecord>(RecordSpace::Inline, "bytes", |_, record, sums| {
            sums.inline = Some(record.data.len() as u64);
        })?;
        self.owned::<CheckpointRecord>(RecordSpace::Checkpoints, "checkpoints", |_, _, _| {})?;
        self.owned::<OrphanRecord>(RecordSpace::Orphans, "", |_, _, _| {})?;
        self.bare()?;
        self.intents()?;
        self.usage()
    }

    /// Checks the usage of all payers against the inodes.
    fn usage(&mut self) -> Result<(), MetaError> {
        let used = count_usage(self.reader())?;
        let (records, damaged) = stored_records(self.reader())?;
        for (key, error) in damaged {
            let mut finding = finding_about(Fault::Usage, 0);
            finding.text = format!("{}: {error}", QUOTAS.0);
            finding.name = key.into();
            self.found(finding);
        }
        let number = |bytes| u64::try_from(bytes).unwrap_or(u64::MAX);
        for (payer, right) in corrected(records.clone(), &used) {
            let (should, is) = (right.used(), records.get(&payer).copied());
            let is = is.unwrap_or_default().used();
            for (name, should, is) in [
                ("bytes", number(should.bytes), number(is.bytes)),
                ("files", should.files, is.files),
            ] {
                if should != is {
                    let mut finding = count_finding(Fault::Usage, 0, should, is);
                    (finding.text, finding.name) = (payer.to_string(), name.into());
                    self.found(finding);
                }
            }
        }
        Ok(())
    }

    /// Checks the records of one space under the ids of their inodes.
    fn owned<M: Message + Default>(
        &mut self,
        space: RecordSpace,
        what: &str,
        add: impl Fn(&[u8], &M, &mut Sums),
    ) -> Result<(), MetaError> {
        let reader = self.reader();
        distinct(reader, space.space(), |id| {
            let (mut sums, mut findings, mut records) = (Sums::default(), Vec::new(), 0);
            scan_prefix(
                reader,
                space.space(),
                &id.to_be_bytes(),
                &mut |key, value| {
                    records += 1;
                    match keys::decode::<M>("record of", id, value) {
                        Ok(record) => add(key, &record, &mut sums),
                        Err(error) => findings.push(space.finding(key, &error)),
                    }
                    ControlFlow::Continue(())
                },
            )?;
            let unreadable = !findings.is_empty();
            for finding in findings {
                self.found(finding);
            }
            match keys::inode(reader, id) {
                Ok(Some(inode)) if unreadable || inode.frozen.is_some() => {}
                Ok(Some(inode)) => self.compare(space, id, &inode, &sums),
                Ok(None) if space == RecordSpace::Orphans => {
                    self.found(finding_about(Fault::Orphan, id));
                }
                Ok(None) => {
                    let mut finding = finding_about(Fault::NoInode, id);
                    finding.found = FileKind::Regular as u64;
                    finding.text = format!("it has {what}");
                    self.found(finding);
                }
                Err(MetaError::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
            Ok(self.seen(records, 0))
        })
    }

    fn compare(&mut self, space: RecordSpace, id: u64, inode: &InodeRecord, sums: &Sums) {
        if space == RecordSpace::Xattrs && sums.xattrs != inode.xattr_bytes {
            let (sum, said) = (sums.xattrs, inode.xattr_bytes);
            self.found(count_finding(Fault::XattrBytes, id, sum, said));
        }
        if let Some(bytes) = sums.inline {
            if !inode.inline {
                self.found(count_finding(Fault::InlineBytes, id, 0, bytes));
            } else if inode.size != bytes || bytes == 0 {
                self.found(count_finding(Fault::InlineSize, id, bytes, inode.size));
            }
        }
    }

    /// Reports inodes whose records are missing.
    fn bare(&mut self) -> Result<(), MetaError> {
        let (reader, mut findings, mut failed) = (self.reader(), Vec::new(), None);
        let all = (Bound::Unbounded, Bound::Unbounded);
        reader.scan(INODES, all.0, all.1, &mut |key, value| {
            let id = keys::number(key).unwrap_or(0);
            let Ok(inode) = keys::decode::<InodeRecord>("inode", id, value) else {
                return ControlFlow::Continue(());
            };
            let mut look = || -> Result<(), MetaError> {
                let none = |space| -> Result<bool, MetaError> {
                    let mut none = true;
                    scan_prefix(reader, space, &id.to_be_bytes(), &mut |_, _| {
                        none = false;
                        ControlFlow::Break(())
                    })?;
                    Ok(none)
                };
                if inode.frozen.is_some() {
                    return Ok(());
                }
                if inode.xattr_bytes != 0 && none(XATTRS)? {
                    findings.push(count_finding(Fault::XattrBytes, id, 0, inode.xattr_bytes));
                }
                if inode.inline && inode.size != 0 && none(INLINE)? {
                    findings.push(count_finding(Fault::InlineSize, id, 0, inode.size));
                }
                Ok(())
            };
            match look() {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        for finding in findings {
            self.found(finding);
        }
        failed.map_or(Ok(()), Err)
    }

    fn intents(&mut self) -> Result<(), MetaError> {
        let (reader, mut findings, mut failed) = (self.reader(), Vec::new(), None);
        let (mut intents, mut last, mut inodes, mut last_inode) = (0, 0, 0, 0);
        let all = (Bound::Unbounded, Bound::Unbounded);
        reader.scan(INTENTS, all.0, all.1, &mut |key, value| {
            let number = keys::number(key).unwrap_or(0);
            (intents, last) = (intents + 1, number);
            let record = keys::decode::<IntentRecord>("intent", number, value);
            let checked = record.and_then(|record| {
                Intent::from_record(reader, number, &record)?;
                Ok(record)
            });
            let named = checked.and_then(|record| {
                let there = record.delete.is_some() && keys::inode(reader, record.file)?.is_some();
                Ok((record.file, there))
            });
            match named {
                Ok((file, true)) => {
                    findings.push(count_finding(Fault::DeleteOwed, file, number, 0));
                }
                Ok(_) => {}
                Err(error @ MetaError::Corrupt { .. }) => {
                    findings.push(Finding {
                        file: 0,
                        ..RecordSpace::Intents.finding(key, &error)
                    });
                }
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        reader.scan(INODES, all.0, all.1, &mut |key, _| {
            inodes += 1;
            last_inode = keys::number(key).unwrap_or(0);
            ControlFlow::Continue(())
        })?;
        for finding in findings {
            self.found(finding);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let counters = match keys::counters(reader) {
            Ok(counters) => counters,
            Err(error @ MetaError::Corrupt { .. }) => {
                self.found(RecordSpace::Volume.finding(keys::COUNTERS_KEY, &error));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut report = |name: &'static str, right: bool, expected: u64, found: u64| {
            if !right {
                let mut finding = count_finding(Fault::Counter, 0, expected, found);
                finding.name = name.as_bytes().into();
                self.found(finding);
            }
        };
        report("files", counters.files == inodes, inodes, counters.files);
        report(
            "intents",
            counters.intents == intents,
            intents,
            counters.intents,
        );
        let (next, known) = (last_inode + 1, counters.next_id);
        report("next id", known >= next, next, known);
        let (next, known) = (last + 1, counters.next_intent);
        report("next intent", known >= next, next, known);
        Ok(())
    }
}
