//! Setting one value of an inode.

use super::outcome::{Outcome, done, gone};
use crate::error::MetaError;
use crate::records::Node;
use crate::records::keys::readable;
use crate::tx::Tx;

/// Changes an inode, if there is something to change.
pub(super) fn change(
    tx: &mut Tx<'_, '_>,
    file: u64,
    work: impl FnOnce(&mut Tx<'_, '_>, &Node) -> Result<bool, MetaError>,
) -> Outcome {
    let Some(inode) = readable(tx.reader(), file)? else {
        return Ok(gone());
    };
    let changed = work(tx, &Node { id: file, inode })?;
    Ok(if changed {
        done("set right".to_owned())
    } else {
        gone()
    })
}

/// Sets a number; whether that changed it.
pub(super) fn set<T: PartialEq>(place: &mut T, value: T) -> bool {
    let changed = *place != value;
    *place = value;
    changed
}
