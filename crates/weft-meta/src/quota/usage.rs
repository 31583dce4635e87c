//! The charge for an inode, and the stored usage of a payer.

use weft_kv::Reader;
use weft_proto::limits::QUOTA_DEPTH_MAX;
use weft_proto::meta::FileKind;

use super::payer::Payer;
use crate::error::MetaError;
use crate::records::keys::{self, QUOTAS};
use crate::records::record::{InodeRecord, QuotaRecord};

pub(crate) fn quota_record(
    reader: &dyn Reader,
    payer: Payer,
) -> Result<Option<QuotaRecord>, MetaError> {
    let bytes = reader.get(QUOTAS, &payer.key())?;
    let record = bytes.map(|bytes| keys::decode("quota of", payer.id(), &bytes));
    record.transpose()
}

/// A tree and those that contain it, from the inside out, as their records say.
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

/// User, group, tree and bytes that an inode is charged with; `None` for an image.
pub(crate) fn charged(inode: &InodeRecord) -> Option<(u32, u32, u64, u64)> {
    let is_image = inode.frozen.is_some();
    (!is_image).then_some((inode.uid, inode.gid, inode.tree, charged_bytes(inode)))
}
