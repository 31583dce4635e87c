//! Correcting one value of an inode.

use super::outcome::{RepairResult, done, obsolete};
use crate::error::MetaError;
use crate::records::Node;
use crate::records::keys::readable;
use crate::tx::Tx;

/// Runs a repair on an inode, if it is there; `work` returns whether it changed something.
pub(super) fn change(
    tx: &mut Tx<'_, '_>,
    file: u64,
    work: impl FnOnce(&mut Tx<'_, '_>, &Node) -> Result<bool, MetaError>,
) -> RepairResult {
    let Some(inode) = readable(tx.reader(), file)? else {
        return Ok(obsolete());
    };
    let changed = work(tx, &Node { id: file, inode })?;
    Ok(if changed {
        done("corrected".to_owned())
    } else {
        obsolete()
    })
}

/// Sets a value; returns whether that changed it.
pub(super) fn set<T: PartialEq>(place: &mut T, value: T) -> bool {
    let changed = *place != value;
    *place = value;
    changed
}
