//! The target of a transfer, as its progress records describe it: a process that resumes a
//! transfer, or adds a part to it, must not count progress for bytes that were removed or truncated
//! since.
//!
//! The device of a local file is ignored: parts on several machines see one file on different
//! devices.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use weft_client::OpenView;

use crate::copy::local;
use crate::terminal::name;

/// The target as it was when a record was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::transfer) struct TargetState {
    /// The inode of a local file; `None` for an import, whose records are in the file itself.
    pub(in crate::transfer) file: Option<u64>,
    /// Its size in bytes; of a view, bytes up to its end.
    pub(in crate::transfer) size: u64,
}

impl TargetState {
    /// How the target lost bytes between `then`, the state in a record, and `now`; `None` if it did
    /// not.
    ///
    /// For records without a state (`then` is `None`), only an empty target counts as a loss.
    pub(in crate::transfer) fn lost(
        then: Option<TargetState>,
        now: Option<TargetState>,
    ) -> Option<String> {
        let Some(now) = now else {
            return Some("is gone".to_owned());
        };
        let least = then.map_or(1, |then| then.size);
        if let Some(then) = then
            && let (Some(was), Some(is)) = (then.file, now.file)
            && was != is
        {
            return Some("was replaced by another file".to_owned());
        }
        match now.size {
            0 if least > 0 => Some("is empty".to_owned()),
            size if size < least => Some(format!("shrank from {least} to {size} bytes")),
            _ => None,
        }
    }
}

/// The target of a transfer.
pub(in crate::transfer) enum TransferTarget {
    /// A local file: its path, and what it is once it is open.
    Local(PathBuf, OnceLock<TargetState>),
    /// A view, and how many bytes it holds at least while the transfer runs, if that is known.
    View(Arc<OpenView>, Option<u64>),
}

impl TransferTarget {
    /// A local file that is still to be opened.
    pub(in crate::transfer) fn local(path: &Path) -> TransferTarget {
        TransferTarget::Local(path.to_owned(), OnceLock::new())
    }

    /// The local file is open, and has this inode and as many bytes.
    pub(in crate::transfer) fn opened(&self, inode: u64, size: u64) {
        if let TransferTarget::Local(_, open) = self {
            let file = Some(inode);
            // Opened once.
            let _ = open.set(TargetState { file, size });
        }
    }

    /// Its current state; `None` if it does not exist.
    pub(in crate::transfer) async fn now(&self) -> Result<Option<TargetState>> {
        match self {
            TransferTarget::Local(path, _) => {
                let there = look(path).await?;
                Ok(there.map(|there| TargetState {
                    file: Some(there.ino()),
                    size: there.len(),
                }))
            }
            TransferTarget::View(view, _) => {
                let (file, size) = (None, view.size().await?);
                Ok(Some(TargetState { file, size }))
            }
        }
    }

    /// The state to record; `None` for a local file that is not open yet.
    pub(in crate::transfer) async fn claim(&self) -> Result<Option<TargetState>> {
        match self {
            TransferTarget::Local(_, open) => Ok(open.get().copied()),
            TransferTarget::View(_, Some(size)) => Ok(Some(TargetState {
                file: None,
                size: *size,
            })),
            TransferTarget::View(_, None) => self.now().await,
        }
    }
}

/// The metadata of a local path; `None` if it does not exist.
pub(in crate::transfer) async fn look(path: &Path) -> Result<Option<Metadata>> {
    let place = name::bytes(path.as_os_str());
    match local::at(place, |place| std::fs::metadata(place)).await {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("cannot examine {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_truncated_or_replaced_target_has_lost_bytes() {
        let held = |file, size| Some(TargetState { file, size });
        let lost = |then, now| TargetState::lost(then, now).unwrap_or_default();
        for then in [None, held(Some(7), 100), held(None, 100)] {
            assert_eq!(lost(then, None), "is gone");
            assert_eq!(lost(then, held(None, 0)), "is empty");
            assert_eq!(lost(then, held(Some(7), 100)), "");
        }
        let then = held(Some(7), 100);
        assert!(lost(then, held(Some(8), 100)).contains("another file"));
        assert_eq!(lost(then, held(Some(7), 99)), "shrank from 100 to 99 bytes");
        assert_eq!(lost(then, held(Some(7), 101)), "");
        // Trailing zeros need not be written, so a view may end before them.
        assert_eq!(lost(held(None, 0), held(None, 0)), "");
    }

    #[tokio::test]
    async fn a_local_file_is_distinguished_from_a_replacement_of_the_same_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let target = TransferTarget::local(&path);
        assert_eq!(target.now().await.unwrap(), None);
        assert_eq!(target.claim().await.unwrap(), None);
        std::fs::write(&path, b"12345").unwrap();
        target.opened(std::fs::metadata(&path).unwrap().ino(), 5);
        let claim = target.claim().await.unwrap();
        assert_eq!(claim, target.now().await.unwrap());
        // While the first file exists, the second cannot have its inode.
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        std::fs::write(&path, b"12345").unwrap();
        let lost = TargetState::lost(claim, target.now().await.unwrap());
        assert!(lost.unwrap().contains("another file"));
    }
}
