//! Growth of files that are being written: the bytes that their writers have not reported yet, and
//! how large the files may become.
//!
//! A writer reports growth when it closes the file. Meanwhile the service asks the servers, and
//! this table records in memory what that adds to the usage of payers with a bound. See
//! `docs/design/0011-quotas.md`.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weft_kv::Reader;
use weft_layout::Layout;

use super::payer::Payer;
use super::usage::{charged_bytes, quota_record, trees_above};
use crate::error::MetaError;
use crate::records::keys;
use crate::records::record::{LayoutRecord, QuotaRecord};

/// A file that is attached for writing. As a rule one of its payers has a bound of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrowingFile {
    /// Its id.
    pub file: u64,
    /// Where its cells are.
    pub layout: Layout,
    /// Its size and the length of its other forks, as they are charged.
    pub charged: u64,
    /// The bytes of other forks in `charged`.
    pub fork_bytes: u64,
    /// The payers that have a bound; without any, the file may grow.
    pub payers: Vec<Payer>,
}

/// Growing files, and what their payers have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrowingFiles {
    /// The files.
    pub files: Vec<GrowingFile>,
    /// Bytes left to each payer without unreported growth; negative where more is used than
    /// allowed.
    pub left: BTreeMap<Payer, i128>,
}

impl GrowingFiles {
    /// The largest size of each file and its other forks together, where `sizes` are their present
    /// sizes. What the payers have left, with all growth counted, is allowed to each single file.
    ///
    /// A file that grows alone thus stops at the bound. Several files may each take what is left,
    /// so together they exceed the bound by less than that for each file but one.
    pub fn limits(&self, sizes: &[u64]) -> Vec<u64> {
        let mut left = self.left.clone();
        for (file, size) in self.files.iter().zip(sizes) {
            let more = i128::from(size.saturating_sub(file.charged));
            for payer in &file.payers {
                *left.entry(*payer).or_default() -= more;
            }
        }
        let limit = |(file, size): (&GrowingFile, &u64)| {
            let left = file.payers.iter().filter_map(|payer| left.get(payer));
            let left = left.min().copied().unwrap_or(i128::MAX);
            let left = u64::try_from(left.clamp(0, i128::from(u64::MAX))).unwrap_or(u64::MAX);
            size.max(&file.charged).saturating_add(left)
        };
        self.files.iter().zip(sizes).map(limit).collect()
    }
}

/// Growth that writers have not reported.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    /// A payer has a bound of bytes.
    bytes_bounded: AtomicBool,
    /// A payer has any bound.
    any_bounded: AtomicBool,
    unreported: Mutex<UnreportedGrowth>,
}

#[derive(Debug, Default)]
struct UnreportedGrowth {
    files: HashMap<u64, (u64, Vec<Payer>)>,
    bytes: HashMap<Payer, u128>,
}

impl UnreportedGrowth {
    fn add(&mut self, file: u64, more: u64, payers: Vec<Payer>) {
        for payer in &payers {
            *self.bytes.entry(*payer).or_default() += u128::from(more);
        }
        self.files.insert(file, (more, payers));
    }

    fn forget(&mut self, file: u64) {
        let Some((more, payers)) = self.files.remove(&file) else {
            return;
        };
        for payer in payers {
            if let Some(bytes) = self.bytes.get_mut(&payer) {
                *bytes = bytes.saturating_sub(more.into());
            }
        }
    }
}

impl Growth {
    /// Records which bounds the volume has.
    pub(crate) fn note_bounds<'a>(&self, records: impl IntoIterator<Item = &'a QuotaRecord>) {
        let (mut bytes, mut files) = (false, false);
        for record in records {
            bytes |= record.bytes_max.is_some();
            files |= record.files_max.is_some();
        }
        self.bytes_bounded.store(bytes, Ordering::Release);
        self.any_bounded.store(bytes || files, Ordering::Release);
    }

    /// Whether any payer has a bound of bytes, so that growth must be measured.
    pub(crate) fn is_bounded(&self) -> bool {
        self.bytes_bounded.load(Ordering::Acquire)
    }

    /// Subtracts the growth of all files but `file` from what payers have left.
    pub(crate) fn take_off_others(&self, file: u64, left: &mut BTreeMap<Payer, i128>) {
        let unreported = self.unreported.lock();
        let of_file = unreported.files.get(&file).map_or(0, |(more, _)| *more);
        for (payer, left) in left {
            let all = unreported.bytes.get(payer).copied().unwrap_or(0);
            let others = all.saturating_sub(of_file.into());
            *left -= i128::try_from(others).unwrap_or(i128::MAX);
        }
    }

    /// Replaces the known growth by that of `growing` at their present sizes. The known growth of
    /// other files is dropped, except for those that `keep` names.
    pub(crate) fn note(&self, growing: &GrowingFiles, sizes: &[u64], keep: impl Fn(u64) -> bool) {
        let mut unreported = UnreportedGrowth::default();
        for (file, size) in growing.files.iter().zip(sizes) {
            let more = size.saturating_sub(file.charged);
            if more > 0 {
                unreported.add(file.file, more, file.payers.clone());
            }
        }
        let mut known = self.unreported.lock();
        for (file, (more, payers)) in std::mem::take(&mut known.files) {
            if keep(file) && !unreported.files.contains_key(&file) {
                unreported.add(file, more, payers);
            }
        }
        *known = unreported;
    }

    /// Whether a bound may refuse anything.
    pub(crate) fn may_refuse(&self) -> bool {
        self.any_bounded.load(Ordering::Acquire)
    }

    /// Bytes of a payer that no writer has reported.
    pub(crate) fn unreported(&self, payer: Payer) -> u128 {
        if !self.is_bounded() {
            return 0;
        }
        self.unreported
            .lock()
            .bytes
            .get(&payer)
            .copied()
            .unwrap_or(0)
    }

    /// A writer has reported the file's size, or the file is removed.
    pub(crate) fn reported(&self, file: u64) {
        if self.is_bounded() {
            self.unreported.lock().forget(file);
        }
    }
}

/// Whether [`growing_among`] lists files that no payer with a bound pays for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unbounded {
    Skip,
    Include,
}

/// Whether [`growing_among`] lists files that have no cells yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inline {
    Skip,
    Include,
}

/// Those of `files` that are charged to a payer with a bound of bytes, and what each such payer has
/// left.
///
/// Cost: a read for each file, and for each payer.
pub(crate) fn growing_among(
    reader: &dyn Reader,
    files: &[u64],
    unbounded: Unbounded,
    inline: Inline,
) -> Result<GrowingFiles, MetaError> {
    let mut found = GrowingFiles::default();
    let mut known = HashMap::new();
    for &file in files {
        let inode = keys::inode(reader, file)?;
        let Some(inode) = inode.filter(|i| inline == Inline::Include || !i.inline) else {
            continue;
        };
        let layout = inode.layout.as_ref().map(LayoutRecord::checked);
        let Some(Ok(layout)) = layout else { continue };
        let mut payers = vec![Payer::User(inode.uid), Payer::Group(inode.gid)];
        let trees = trees_above(reader, inode.tree)?;
        payers.extend(trees.iter().map(|(tree, _)| Payer::Tree(*tree)));
        let mut bounded = Vec::new();
        for payer in payers {
            if let Some(left) = bound_left(reader, payer, &mut known)? {
                found.left.insert(payer, left);
                bounded.push(payer);
            }
        }
        if unbounded == Unbounded::Include || !bounded.is_empty() {
            found.files.push(GrowingFile {
                file,
                layout,
                charged: charged_bytes(&inode),
                fork_bytes: inode.fork_bytes,
                payers: bounded,
            });
        }
    }
    Ok(found)
}

/// What a payer has left, if it has a bound; each record is read once.
fn bound_left(
    reader: &dyn Reader,
    payer: Payer,
    known: &mut HashMap<Payer, Option<i128>>,
) -> Result<Option<i128>, MetaError> {
    if let Some(left) = known.get(&payer) {
        return Ok(*left);
    }
    let record: QuotaRecord = quota_record(reader, payer)?.unwrap_or_default();
    let used = i128::try_from(record.used().bytes).unwrap_or(i128::MAX);
    let left = record.bytes_max.map(|most| i128::from(most) - used);
    known.insert(payer, left);
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_layout::{LayoutSpec, ServerId, Storage};

    fn file(id: u64, charged: u64, payers: &[Payer]) -> GrowingFile {
        let layout = LayoutSpec {
            cells: 1,
            bsu: 1,
            chunk: 4096,
            servers: vec![ServerId(1)],
            storage: Storage::Plain,
        };
        GrowingFile {
            file: id,
            layout: Layout::new(layout).unwrap(),
            charged,
            fork_bytes: 0,
            payers: payers.to_vec(),
        }
    }

    #[test]
    fn a_file_that_grows_alone_stops_at_its_quota() {
        let (user, tree) = (Payer::User(1), Payer::Tree(9));
        let growing = GrowingFiles {
            files: vec![
                file(1, 100, &[user, tree]),
                file(2, 50, &[tree]),
                file(3, 0, &[user]),
            ],
            left: BTreeMap::from([(user, 1000), (tree, 300)]),
        };
        // No file has grown: each may take what is left.
        assert_eq!(growing.limits(&[100, 50, 0]), [400, 350, 1000]);
        // The tree has grown by 200, 150 of them the user's, and the user by 10 more.
        assert_eq!(growing.limits(&[250, 100, 10]), [350, 200, 850]);
        // A file that is shorter than its charge may become that long again.
        assert_eq!(growing.limits(&[40, 50, 0]), [400, 350, 1000]);
        // Above the bound no file may grow, and none has to shrink.
        assert_eq!(growing.limits(&[500, 100, 700]), [500, 100, 700]);
    }
}
