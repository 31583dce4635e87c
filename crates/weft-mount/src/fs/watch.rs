//! What others change, as they change it: the service tells, and what was told here is taken back.

use std::sync::Arc;

use tokio::time::timeout;
use weft_client::Changed as Told;

use super::FileSystem;
use crate::limits::INVALIDATION_TIMEOUT;

/// Hears of changes for ever; dropped when the mount ends.
pub(crate) async fn follow(fs: Arc<FileSystem>) {
    let mut watch = fs.volume.watch();
    loop {
        match watch.next().await {
            Told::Some { files, entries } => {
                let names = entries.iter().map(|e| (e.parent, &e.name[..]));
                fs.changed(files.iter().copied(), names);
                // Others may wait until nobody here believes what was: the next question says so.
                if let Some(upper) = fs.upper.get() {
                    let _ = timeout(INVALIDATION_TIMEOUT, upper.invalidations_sent()).await;
                }
            }
            Told::Everything => fs.everything_changed(watch.is_live()),
        }
    }
}
