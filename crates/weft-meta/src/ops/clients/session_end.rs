//! The end of a session: the client's attachments end, and orphans that only it had open are
//! removed.

use std::collections::BTreeSet;

use crate::error::MetaError;
use crate::open::OpenFiles;
use crate::records::keys;
use crate::tx::{Tx, Volume};

pub(crate) fn session_ended(volume: &Volume, client: u64) -> Result<(), MetaError> {
    volume.transact_then(
        |tx| let_go(volume, tx, client, &BTreeSet::new()),
        |open, ()| {
            unsettle_written(volume, open, client);
            open.forget_client(client);
        },
    )
}

/// Notes the files that a client was writing: it will not report their sizes any more.
pub(super) fn unsettle_written(volume: &Volume, open: &OpenFiles, client: u64) {
    let files = open.of_client(client).into_iter();
    let written = files.filter(|id| open.is_writer(client, *id));
    written.for_each(|id| volume.state().unsettled().note(id));
}

/// What follows when a client has nothing open but `held`.
pub(super) fn let_go(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    client: u64,
    held: &BTreeSet<u64>,
) -> Result<(), MetaError> {
    for id in tx.open_files().of_client(client) {
        if tx.open_files().is_writer(client, id)
            && let Some(inode) = keys::inode(tx.reader(), id)?
            && (inode.truncate != 0 || !inode.inline)
        {
            // It may have written behind a truncate, and to other forks, and cannot report that any
            // more.
            let now = tx.change(id, &inode);
            now.truncate_raced |= now.truncate != 0;
            if !now.inline && !held.contains(&id) {
                (now.forks_changed, now.size_exact) = (true, false);
            }
        }
        if !held.contains(&id)
            && !volume.state().grace().is_active()
            && tx.open_files().only_by(client, id)
        {
            tx.reap(id)?;
        }
    }
    Ok(())
}
