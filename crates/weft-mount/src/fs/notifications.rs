//! Follows the changes that other clients make, and invalidates what is cached of them.

use std::sync::Arc;

use tokio::time::timeout;
use weft_client::Changed as Notification;

use super::FileSystem;
use crate::limits::INVALIDATION_TIMEOUT;

impl FileSystem {
    /// Follows changes for ever; dropped when the mount ends.
    pub async fn follow_changes(self: Arc<Self>) {
        self.watch_refusals();
        let mut watch = self.volume.watch();
        loop {
            match watch.next().await {
                Notification::Some { files, entries } => {
                    let names = entries.iter().map(|e| (e.parent, &e.name[..]));
                    self.metadata.changed(files.iter().copied(), names);
                    for id in files {
                        self.forget_kept(id).await;
                    }
                    // Other clients may wait until nothing old is cached here: the next request of
                    // the watch acknowledges it.
                    if let Some(upper) = self.metadata.upper() {
                        let _ = timeout(INVALIDATION_TIMEOUT, upper.invalidations_sent()).await;
                    }
                }
                Notification::Everything => {
                    self.metadata.everything_changed(watch.is_live());
                    self.forget_all_kept().await;
                }
            }
        }
    }
}
