//! Access times, which clients report when they end attachments. The mount decides which reads
//! count (`relatime` and similar).

use weft_proto::meta::Accessed;

use crate::error::MetaError;
use crate::records::keys::{self, INODES};
use crate::tx::Volume;

/// Stores when files, directories and links were read. A time only moves forward, and nothing else
/// changes, not even the change time. Watchers are not notified: a read by one client must not
/// invalidate what others have cached.
///
/// Missing files and images are skipped. All are skipped if one of them is a directory that is
/// delegated to another client: an access time is not worth a recall.
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
        tracing::debug!(%error, count = accessed.len(), "access times are not stored");
    }
}
