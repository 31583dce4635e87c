//! A quota as clients see it, and which callers may see it.

use bytes::Bytes;
use weft_kv::Reader;
use weft_proto::meta::Credentials;
use weft_proto::quota::QuotaInfo;

use crate::access::{in_group, is_root};
use crate::error::MetaError;
use crate::paths::directory_path;
use crate::quota::Payer;
use crate::records::keys;
use crate::records::record::QuotaRecord;
use crate::tx::Volume;

pub(super) fn quota_info(
    volume: &Volume,
    reader: &dyn Reader,
    payer: Payer,
    quota: &QuotaRecord,
) -> Result<QuotaInfo, MetaError> {
    let path = match payer {
        Payer::Tree(id) if keys::inode(reader, id)?.is_some() => directory_path(reader, id)?,
        _ => Vec::new(),
    };
    let used = quota.used();
    let bytes = used.bytes + volume.state().growth().unreported(payer);
    Ok(QuotaInfo {
        kind: payer.kind() as i32,
        id: payer.id(),
        bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        files: used.files,
        bytes_max: quota.bytes_max,
        files_max: quota.files_max,
        above: quota.above,
        path: Bytes::from(path),
    })
}

/// Whether a caller may see a quota: root sees all, other callers theirs.
pub(super) fn may_see(
    reader: &dyn Reader,
    who: &Credentials,
    payer: Payer,
) -> Result<bool, MetaError> {
    Ok(match payer {
        _ if is_root(who) => true,
        Payer::User(id) => id == who.uid,
        Payer::Group(id) => in_group(who, id),
        Payer::Tree(id) => keys::inode(reader, id)?.is_some_and(|inode| inode.uid == who.uid),
    })
}
