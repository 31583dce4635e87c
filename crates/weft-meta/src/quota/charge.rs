//! Whose bytes and files are counted together, and what each transaction adds to them.
//!
//! Every inode is charged to its user, its group and the directories with a quota above it: one file, and, if it is a
//! regular file, its size and the length of its other forks. What a transaction makes of the inodes it changes is charged in the same transaction, in one
//! place ([`Edit::charge`]), so no operation can forget it. Copies that checkpoints keep are nobody's.
//!
//! Invariants:
//! 1. A record holds the sum of what the inodes charged to it amount to ([`crate::Namespace::recount`] counts the same anew);
//!    who has neither usage nor bounds has no record.
//! 2. A usage rises above a bound only by what has happened already when the service hears of it: [`Edit::force`].
//! 3. The directory of a tree's record is the `tree` of its own inode; `above` of the record is the `tree` of its parent.

use std::collections::BTreeMap;

use weft_kv::Reader;
use weft_proto::limits::QUOTA_DEPTH_MAX;
use weft_proto::meta::FileKind;
use weft_proto::quota::QuotaKind;

use crate::edit::{Changed, Edit};
use crate::error::{MetaError, text};
use crate::paths::directory_path;
use crate::records::keys::{self, QUOTAS};
use crate::records::record::{InodeRecord, QuotaRecord};

/// Who is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Payer {
    /// A user.
    User(u32),
    /// A group.
    Group(u32),
    /// The tree below this directory.
    Tree(u64),
}

impl Payer {
    pub(crate) fn kind(self) -> QuotaKind {
        match self {
            Payer::User(_) => QuotaKind::User,
            Payer::Group(_) => QuotaKind::Group,
            Payer::Tree(_) => QuotaKind::Tree,
        }
    }

    pub(crate) fn id(self) -> u64 {
        match self {
            Payer::User(id) | Payer::Group(id) => id.into(),
            Payer::Tree(id) => id,
        }
    }

    pub(crate) fn new(kind: QuotaKind, id: u64) -> Option<Payer> {
        match kind {
            QuotaKind::User => Some(Payer::User(u32::try_from(id).ok()?)),
            QuotaKind::Group => Some(Payer::Group(u32::try_from(id).ok()?)),
            QuotaKind::Tree => Some(Payer::Tree(id)),
            QuotaKind::Unspecified => None,
        }
    }

    /// `kind ‖ id`: users come first, then groups, then trees.
    pub(crate) fn key(self) -> [u8; 9] {
        let mut key = [0; 9];
        key[0] = self.kind() as u8;
        key[1..].copy_from_slice(&self.id().to_be_bytes());
        key
    }

    pub(crate) fn from_key(key: &[u8]) -> Option<Payer> {
        let (kind, id) = key.split_first()?;
        let kind = QuotaKind::try_from(i32::from(*kind)).ok()?;
        Payer::new(kind, u64::from_be_bytes(id.try_into().ok()?))
    }
}

impl std::fmt::Display for Payer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Payer::User(id) => write!(f, "user {id}"),
            Payer::Group(id) => write!(f, "group {id}"),
            Payer::Tree(id) => write!(f, "the tree of directory {id}"),
        }
    }
}

/// What somebody uses. Sizes of sparse files may add up to more than 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes of regular files and their forks, holes included.
    pub bytes: u128,
    /// Inodes.
    pub files: u64,
}

impl QuotaRecord {
    pub(crate) fn used(&self) -> Used {
        Used {
            bytes: u128::from(self.bytes_high) << 64 | u128::from(self.bytes),
            files: self.files,
        }
    }

    pub(crate) fn set_used(&mut self, used: Used) {
        (self.bytes_high, self.bytes) = ((used.bytes >> 64) as u64, used.bytes as u64);
        self.files = used.files;
    }

    /// Nobody needs to know anything of it. A tree's own directory is one of its files.
    fn says_nothing(&self, payer: Payer) -> bool {
        let bound = self.bytes_max.is_some() || self.files_max.is_some();
        self.used() == Used::default() && (!bound || matches!(payer, Payer::Tree(_)))
    }
}

pub(crate) fn quota_record(
    reader: &dyn Reader,
    payer: Payer,
) -> Result<Option<QuotaRecord>, MetaError> {
    let bytes = reader.get(QUOTAS, &payer.key())?;
    let record = bytes.map(|bytes| keys::decode("quota of", payer.id(), &bytes));
    record.transpose()
}

/// The trees from the nearest on upwards, as their records tell.
pub(crate) fn trees_above(
    reader: &dyn Reader,
    mut tree: u64,
) -> Result<Vec<(u64, QuotaRecord)>, MetaError> {
    let mut found = Vec::new();
    while tree != 0 && found.len() < QUOTA_DEPTH_MAX {
        let record = quota_record(reader, Payer::Tree(tree))?.unwrap_or_default();
        let above = record.above;
        found.push((tree, record));
        tree = above;
    }
    Ok(found)
}

/// The bytes that an inode is charged for.
pub(crate) fn charged_bytes(inode: &InodeRecord) -> u64 {
    if inode.is(FileKind::Regular) {
        inode.size.saturating_add(inode.fork_bytes)
    } else {
        0
    }
}

/// What an inode is charged for: nothing where a checkpoint keeps it.
pub(crate) fn charged(inode: &InodeRecord) -> Option<(u32, u32, u64, u64)> {
    let kept = inode.frozen.is_some();
    (!kept).then_some((inode.uid, inode.gid, inode.tree, charged_bytes(inode)))
}

/// What a transaction adds to somebody's usage.
#[derive(Clone, Copy, Default)]
struct Delta {
    bytes: i128,
    files: i64,
}

/// The changes of usage that a transaction makes.
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

/// Records, each read once.
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

impl Edit<'_, '_> {
    /// Charges what the transaction makes of inodes; the records are written with it.
    ///
    /// Cost: a read and a write for each user, group and tree whose usage changes; nothing where none does.
    /// # Errors
    /// [`MetaError::QuotaExceeded`] where a usage rises above its bound, unless it has happened already.
    pub(crate) fn charge(&mut self, changed: &BTreeMap<u64, Changed>) -> Result<(), MetaError> {
        let before = changed.values().filter(|c| {
            let then = c.before.as_ref().and_then(charged);
            then.is_some() && then != charged(&c.now)
        });
        let after = changed.values().filter(|c| {
            let then = c.before.as_ref().and_then(charged);
            then != charged(&c.now)
        });
        let mut records = Records {
            reader: self.reader(),
            known: BTreeMap::new(),
        };
        let mut charges = Charges::default();
        for inode in before.filter_map(|c| c.before.as_ref()).chain(self.gone()) {
            charges.add(&mut records, inode, -1)?;
        }
        for inode in after.map(|c| &c.now) {
            charges.add(&mut records, inode, 1)?;
        }
        let mut written = Vec::with_capacity(charges.0.len());
        for (payer, delta) in charges.0 {
            if delta.bytes == 0 && delta.files == 0 {
                continue;
            }
            let record = records.get(payer)?;
            let used = record.used();
            // A usage that is damaged must not keep anything from happening: a check finds it.
            let now = Used {
                bytes: used.bytes.saturating_add_signed(delta.bytes),
                files: used.files.saturating_add_signed(delta.files),
            };
            if !self.is_forced() {
                let untold = self.namespace().growth.untold(payer);
                let refusal = allowed(record, delta, (now, untold));
                refusal.map_err(|(what, bound, wanted)| MetaError::QuotaExceeded {
                    payer: named(self.reader(), payer),
                    what,
                    bound,
                    wanted,
                })?;
            }
            record.set_used(now);
            written.push((payer, *record));
        }
        for (payer, record) in written {
            self.put_quota(payer, &record);
        }
        Ok(())
    }

    /// Stores a record, or takes it away where it says nothing.
    pub(crate) fn put_quota(&mut self, payer: Payer, record: &QuotaRecord) {
        if record.says_nothing(payer) {
            self.delete_unseen(QUOTAS, &payer.key());
        } else {
            self.put_unseen(QUOTAS, &payer.key(), record);
        }
    }
}

/// As people know it: a tree by its path.
fn named(reader: &dyn Reader, payer: Payer) -> String {
    match payer {
        Payer::Tree(id) => directory_path(reader, id).map_or_else(
            |_| payer.to_string(),
            |path| format!("the tree {}", text(&path)),
        ),
        _ => payer.to_string(),
    }
}

/// Refuses what makes a usage rise above its bound: bytes or files, the bound, and what would be used. `untold`: bytes that
/// writers have not told of yet.
fn allowed(
    record: &QuotaRecord,
    delta: Delta,
    (now, untold): (Used, u128),
) -> Result<(), (&'static str, u64, u128)> {
    if let Some(bound) = record.bytes_max
        && delta.bytes > 0
        && now.bytes + untold > u128::from(bound)
    {
        return Err(("bytes", bound, now.bytes + untold));
    }
    match record.files_max {
        Some(bound) if delta.files > 0 && now.files > bound => {
            Err(("files", bound, now.files.into()))
        }
        _ => Ok(()),
    }
}
