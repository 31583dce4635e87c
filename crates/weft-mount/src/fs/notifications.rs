//! Follows the changes that other clients make, and invalidates what is cached of them.

use std::sync::Arc;

use futures_util::future::join;
use tokio::time::timeout;
use weft_client::Changed as Notification;

use super::FileSystem;
use crate::limits::{INVALIDATION_TIMEOUT, UNSENT_TIMEOUT};

impl FileSystem {
    /// Follows changes for ever; dropped when the mount ends.
    pub async fn follow_changes(self: Arc<Self>) {
        self.watch_refusals();
        let mut watch = self.volume.watch();
        if !self.options.strict {
            watch = watch.gathering();
        }
        loop {
            match watch.next().await {
                Notification::Some {
                    files,
                    entries,
                    opened,
                } => {
                    let sent = timeout(UNSENT_TIMEOUT, self.data.flush_files(&opened));
                    let names = entries.iter().map(|e| (e.parent, &e.name[..]));
                    self.metadata.changed(files.iter().copied(), names);
                    for id in files {
                        self.forget_kept(id).await;
                    }
                    // Other clients may wait until nothing old is cached here, and nothing new: the
                    // next request of the watch acknowledges it.
                    let dropped = async {
                        if let Some(upper) = self.metadata.upper() {
                            let _ = upper.invalidations_sent().await;
                        }
                    };
                    let dropped = timeout(INVALIDATION_TIMEOUT, dropped);
                    let _ = join(sent, dropped).await;
                }
                Notification::Everything => {
                    self.metadata.everything_changed(watch.is_live());
                    self.forget_all_kept().await;
                }
            }
        }
    }
}
