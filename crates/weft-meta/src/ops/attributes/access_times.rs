//! Access times, as clients tell of them when they end attachments. A mount decides which reads count (`relatime` and the like).

use weft_proto::meta::Accessed;

use crate::error::MetaError;
use crate::records::keys::{self, INODES};
use crate::tx::Volume;

/// Notes when files, directories and links were read. A time only goes forward, and nothing else changes, the time of the
/// last change neither. Watchers are not told: that one client reads must not end what others have cached.
///
/// What is not there, or kept by a checkpoint, is passed over. So are all, where a directory among them is another client's for
/// the moment: a time of access is not worth that it is asked to give it back.
pub(crate) fn note_accesses(volume: &Volume, accessed: &[Accessed]) {
    if accessed.is_empty() {
        return;
    }
    let noted = volume.transact(|tx| {
        for Accessed { file, time } in accessed {
            let Some(mut inode) = keys::inode(tx.reader(), *file)? else {
                continue;
            };
            if inode.frozen.is_none() && inode.accessed < *time {
                inode.accessed = *time;
                tx.put_unseen(INODES, &file.to_be_bytes(), &inode);
            }
        }
        Ok::<(), MetaError>(())
    });
    if let Err(error) = noted {
        tracing::debug!(%error, count = accessed.len(), "times of access are not noted");
    }
}
