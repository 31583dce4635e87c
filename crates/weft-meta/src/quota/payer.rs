//! A payer: the user, group or directory tree that bytes and files are charged to.

use weft_proto::quota::QuotaKind;

use crate::records::record::QuotaRecord;

/// A user, group or tree that is charged.
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

/// The usage of a payer. Sizes of sparse files may add up to more than 2⁶⁴.
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

    /// Whether the record can be deleted: it has neither usage nor bounds. The directory of a tree
    /// is charged to the tree, so a tree without usage has no directory.
    pub(crate) fn is_void(&self, payer: Payer) -> bool {
        let bound = self.bytes_max.is_some() || self.files_max.is_some();
        self.used() == Used::default() && (!bound || matches!(payer, Payer::Tree(_)))
    }
}
