//! What other records say about an inode, as far as they can be read.

use std::ops::{Bound, ControlFlow};

use weft_kv::scan_prefix;
use weft_proto::meta::FileKind;

use crate::check::entry_counts::EntryCounts;
use crate::error::MetaError;
use crate::records::keys::{self, ENTRIES, INLINE, XATTRS};
use crate::records::record::{InlineRecord, XattrRecord};
use crate::tx::Tx;

/// A name of an inode.
pub(super) struct NameOfInode {
    pub(super) parent: u64,
    pub(super) name: Vec<u8>,
    pub(super) kind: i32,
}

/// All names of an inode. Cost: a scan of all entries.
pub(super) fn names_by_scan(tx: &Tx<'_, '_>, id: u64) -> Result<Vec<NameOfInode>, MetaError> {
    let mut found = Vec::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    tx.reader().scan(ENTRIES, all.0, all.1, &mut |key, value| {
        let parent = keys::number(key).unwrap_or(0);
        if let Ok(record) = keys::entry_in(parent, value)
            && record.id == id
        {
            found.push(NameOfInode {
                parent,
                name: key[8..].to_vec(),
                kind: record.kind,
            });
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Counts a directory's entries.
pub(super) fn count_entries(tx: &Tx<'_, '_>, id: u64) -> Result<EntryCounts, MetaError> {
    let mut inside = EntryCounts::default();
    scan_prefix(tx.reader(), ENTRIES, &id.to_be_bytes(), &mut |_, value| {
        inside.entries += 1;
        let record = keys::entry_in(id, value);
        let kind = record.map_or(0, |record| record.kind);
        inside.directories += u32::from(kind == FileKind::Directory as i32);
        ControlFlow::Continue(())
    })?;
    Ok(inside)
}

/// Bytes of an inode's extended attributes, names included.
pub(super) fn xattr_bytes(tx: &Tx<'_, '_>, id: u64) -> Result<u64, MetaError> {
    let mut bytes = 0;
    scan_prefix(tx.reader(), XATTRS, &id.to_be_bytes(), &mut |key, value| {
        let record = keys::decode::<XattrRecord>("attribute of", id, value);
        bytes += (key.len() - 8 + record.map_or(0, |record| record.value.len())) as u64;
        ControlFlow::Continue(())
    })?;
    Ok(bytes)
}

/// The inline bytes of an id, as far as they can be read.
pub(super) fn inline_bytes(tx: &Tx<'_, '_>, id: u64) -> Result<Option<Vec<u8>>, MetaError> {
    let bytes = tx.reader().get(INLINE, &id.to_be_bytes())?;
    let record = bytes.map(|bytes| keys::decode::<InlineRecord>("bytes of file", id, &bytes));
    Ok(record.and_then(Result::ok).map(|record| record.data))
}
