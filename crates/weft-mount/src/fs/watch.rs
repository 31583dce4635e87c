//! What others change, as they change it: the service tells, and what was told here is taken back.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use weft_client::Changed as Told;

use super::FileSystem;

/// How long the kernel may take to hear of changes before others go on: it may wait for a page that
/// is being read.
const TELL: Duration = Duration::from_secs(1);

/// Hears of changes for ever; dropped when the mount ends.
pub(crate) async fn follow(fs: Arc<FileSystem>) {
    let mut watch = fs.volume.watch();
    loop {
        match watch.next().await {
            Told::Some { files, entries } => {
                let names = entries.iter().map(|e| (e.parent, &e.name[..]));
                fs.changed(files.iter().copied(), names);
                // Others may wait until nobody here believes what was: the next question says so.
                if let Some(holder) = fs.holder.get() {
                    let _ = timeout(TELL, holder.all_told()).await;
                }
            }
            Told::Everything => fs.everything_changed(watch.is_live()),
        }
    }
}
