//! The end of a session: the client's attachments end, and orphans that only it had open are
//! removed.

use std::collections::BTreeSet;

use crate::error::MetaError;
use crate::open::OpenFiles;
use crate::records::keys;
use crate::tx::{Tx, Volume};

pub(crate) fn session_ended(volume: &Volume, client: u64) -> Result<(), MetaError> {
    volume.transact_then(
        |tx| release_all_but(volume, tx, client, &BTreeSet::new()),
        |open, ()| {
            unsettle_written(volume, open, client);
            open.forget_client(client);
        },
    )
}

/// Notes the files that a client was writing as files of unknown size: it will not report their
/// sizes.
pub(super) fn unsettle_written(volume: &Volume, open: &OpenFiles, client: u64) {
    let files = open.files_of(client).into_iter();
    let written = files.filter(|id| open.is_writer(client, *id));
    written.for_each(|id| volume.state().unknown_sizes().note(id));
}

/// Ends the attachments of a client to all files but `kept`.
pub(super) fn release_all_but(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    client: u64,
    kept: &BTreeSet<u64>,
) -> Result<(), MetaError> {
    for id in tx.open_files().files_of(client) {
        if tx.open_files().is_writer(client, id)
            && let Some(inode) = keys::inode(tx.reader(), id)?
            && (inode.truncate != 0 || !inode.inline)
        {
            // It may have written beyond a truncate, and to other forks, and can no longer report
            // that.
            let now = tx.change(id, &inode);
            now.truncate_raced |= now.truncate != 0;
            if !now.inline && !kept.contains(&id) {
                (now.forks_changed, now.size_exact) = (true, false);
            }
        }
        if !kept.contains(&id)
            && !volume.state().grace().is_active()
            && tx.open_files().only_by(client, id)
        {
            tx.reap(id)?;
        }
    }
    Ok(())
}
