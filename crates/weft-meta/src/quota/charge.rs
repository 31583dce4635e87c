//! Charging a transaction's changes to the usage of payers.
//!
//! Every inode is charged to its user, its group and the directories with a quota above it: one
//! file, and for a regular file its size and the length of its other forks. A transaction charges
//! its changes of inodes in one place ([`charge`]), so no operation can forget it. Images are
//! charged to no payer.
//!
//! Invariants:
//! 1. A record holds the sum over the inodes charged to it ([`crate::Namespace::recount`] counts
//!    the same from the inodes); a payer without usage and bounds has no record.
//! 2. A usage rises above a bound only by changes that have happened already when they are reported
//!    to the service: [`Bounds::Ignored`].
//! 3. The inode of a directory with a quota has itself as `tree`; `above` of the quota's record is
//!    the `tree` of the directory's parent.

use std::collections::BTreeMap;

use weft_kv::Reader;
use weft_proto::limits::QUOTA_DEPTH_MAX;

use super::growth::Growth;
use super::payer::{Payer, Used};
use super::usage::{charged, quota_record};
use crate::error::{MetaError, text};
use crate::paths::directory_path;
use crate::records::record::{InodeRecord, QuotaRecord};

/// The change of one payer's usage by a transaction.
#[derive(Clone, Copy, Default)]
struct Delta {
    bytes: i128,
    files: i64,
}

/// The changes of usage by a transaction.
#[derive(Default)]
struct Charges(BTreeMap<Payer, Delta>);

impl Charges {
    fn add(
        &mut self,
        records: &mut Records<'_>,
        inode: &InodeRecord,
        sign: i8,
    ) -> Result<(), MetaError> {
        let Some((uid, gid, tree, size)) = charged(inode) else {
            return Ok(());
        };
        let mut charge = |payer| {
            let delta = self.0.entry(payer).or_default();
            delta.bytes += i128::from(size) * i128::from(sign);
            delta.files += i64::from(sign);
        };
        charge(Payer::User(uid));
        charge(Payer::Group(gid));
        let (mut tree, mut depth) = (tree, 0);
        while tree != 0 && depth < QUOTA_DEPTH_MAX {
            charge(Payer::Tree(tree));
            tree = records.get(Payer::Tree(tree))?.above;
            depth += 1;
        }
        Ok(())
    }
}

/// Quota records, each read once.
struct Records<'r> {
    reader: &'r dyn Reader,
    known: BTreeMap<Payer, QuotaRecord>,
}

impl Records<'_> {
    fn get(&mut self, payer: Payer) -> Result<&mut QuotaRecord, MetaError> {
        if !self.known.contains_key(&payer) {
            let found = quota_record(self.reader, payer)?.unwrap_or_default();
            self.known.insert(payer, found);
        }
        Ok(self.known.get_mut(&payer).expect("just read"))
    }
}

/// Whether a transaction respects bounds.
#[derive(Clone, Copy)]
pub(crate) enum Bounds<'a> {
    /// A usage, including unreported growth, must not rise above its bound.
    Enforced(&'a Growth),
    /// The change has happened already.
    Ignored,
}

/// Charges a transaction's changes of inodes: each pair is the inode before (`None`: it is new) and
/// after, and `removed` are the inodes that it removes. Returns the records to write with it.
///
/// Cost: a read for each user, group and tree whose usage changes; nothing where none does.
/// # Errors
/// [`MetaError::QuotaExceeded`] where a usage rises above an enforced bound.
pub(crate) fn charge<'a>(
    reader: &dyn Reader,
    inodes: impl IntoIterator<Item = (Option<&'a InodeRecord>, &'a InodeRecord)>,
    removed: &[InodeRecord],
    bounds: Bounds<'_>,
) -> Result<Vec<(Payer, QuotaRecord)>, MetaError> {
    let mut records = Records {
        reader,
        known: BTreeMap::new(),
    };
    let mut charges = Charges::default();
    for inode in removed {
        charges.add(&mut records, inode, -1)?;
    }
    for (before, now) in inodes {
        if before.and_then(charged) != charged(now) {
            if let Some(before) = before {
                charges.add(&mut records, before, -1)?;
            }
            charges.add(&mut records, now, 1)?;
        }
    }
    let mut written = Vec::with_capacity(charges.0.len());
    for (payer, delta) in charges.0 {
        if delta.bytes == 0 && delta.files == 0 {
            continue;
        }
        let record = records.get(payer)?;
        let used = record.used();
        // A damaged usage must not block changes: a check reports it.
        let now = Used {
            bytes: used.bytes.saturating_add_signed(delta.bytes),
            files: used.files.saturating_add_signed(delta.files),
        };
        if let Bounds::Enforced(growth) = bounds {
            let refusal = allowed(record, delta, (now, growth.unreported(payer)));
            refusal.map_err(|(what, bound, wanted)| MetaError::QuotaExceeded {
                payer: named(reader, payer),
                what,
                bound,
                wanted,
            })?;
        }
        record.set_used(now);
        written.push((payer, *record));
    }
    Ok(written)
}

/// The payer in words: a tree by its path.
fn named(reader: &dyn Reader, payer: Payer) -> String {
    match payer {
        Payer::Tree(id) => directory_path(reader, id).map_or_else(
            |_| payer.to_string(),
            |path| format!("the tree {}", text(&path)),
        ),
        Payer::User(_) | Payer::Group(_) => payer.to_string(),
    }
}

/// Refuses a usage that rises above its bound, with the unit, the bound and the refused usage.
/// `unreported` are bytes that writers have not reported yet.
fn allowed(
    record: &QuotaRecord,
    delta: Delta,
    (now, unreported): (Used, u128),
) -> Result<(), (&'static str, u64, u128)> {
    if let Some(bound) = record.bytes_max
        && delta.bytes > 0
        && now.bytes + unreported > u128::from(bound)
    {
        return Err(("bytes", bound, now.bytes + unreported));
    }
    match record.files_max {
        Some(bound) if delta.files > 0 && now.files > bound => {
            Err(("files", bound, now.files.into()))
        }
        _ => Ok(()),
    }
}
