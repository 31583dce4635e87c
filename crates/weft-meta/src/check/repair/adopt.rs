//! Adopting cells: making an inode for cells without one.

use weft_proto::fsck::{AdoptFileRequest, RepairNamespaceReply};
use weft_proto::meta::FileKind;

use super::lost_found::{KNOWN, default_inode, recreate_inode, set_attribute};
use super::outcome::{done, not_repaired, obsolete};
use crate::error::MetaError;
use crate::records::keys;
use crate::records::record::{InodeRecord, LayoutRecord};
use crate::tx::Volume;

pub(crate) fn adopt_file(
    volume: &Volume,
    now: i64,
    request: &AdoptFileRequest,
) -> Result<RepairNamespaceReply, MetaError> {
    let id = request.file;
    let layout = LayoutRecord::from(&request.layout);
    let sound = weft_layout::Layout::try_from(&request.layout);
    sound.map_err(|source| MetaError::Settings {
        reason: source.to_string(),
    })?;
    volume.transact(|tx| {
        tx.force();
        let found = match keys::inode(tx.reader(), id) {
            Err(MetaError::Corrupt { .. }) => return Ok(not_repaired()),
            found => found?,
        };
        let Some(inode) = found else {
            if request.instead_of.is_some() {
                return Ok(obsolete());
            }
            let inode = InodeRecord {
                layout: Some(layout.clone()),
                size: request.size,
                size_exact: false,
                modified: request.modified,
                written: request.modified,
                ..default_inode(FileKind::Regular, now)
            };
            return Ok(done(recreate_inode(tx, id, inode, &request.known, now)?));
        };
        let known = inode.layout.as_ref().map(weft_proto::meta::Layout::from);
        let doubted = known.is_some() && known == request.instead_of;
        let sound = known.is_some_and(|known| weft_layout::Layout::try_from(&known).is_ok());
        // A client that has it open would continue to use the old layout.
        let in_use = tx.open_files().is_open(id) || inode.truncate != 0;
        if doubted && in_use {
            return Ok(not_repaired());
        }
        if sound && !doubted || !inode.is(FileKind::Regular) {
            return Ok(obsolete());
        }
        let inode = tx.change(id, &inode);
        inode.layout = Some(layout.clone());
        inode.size_exact = inode.inline;
        set_attribute(tx, id, KNOWN, request.known.as_bytes())?;
        Ok(done("got a layout that fits its cells".to_owned()))
    })
}
