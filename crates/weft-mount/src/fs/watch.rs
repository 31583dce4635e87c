//! What others change, as they change it: the service tells, and what was told here is taken back.

use std::sync::Arc;

use weft_client::Changed as Told;

use super::FileSystem;

/// Hears of changes for ever; dropped when the mount ends.
pub(crate) async fn follow(fs: Arc<FileSystem>) {
    let mut watch = fs.volume.watch();
    loop {
        match watch.next().await {
            Told::Some { files, entries } => {
                for id in &files {
                    fs.cache.invalidate(*id);
                }
                let names = entries.iter().map(|e| (e.parent, &e.name[..]));
                fs.changed(files.iter().copied(), names);
            }
            // Names that cannot be enumerated end by themselves, after `Options::names_valid`.
            Told::Everything => {
                fs.cache.invalidate_all();
                fs.changed(fs.nodes.all(), []);
            }
        }
    }
}
