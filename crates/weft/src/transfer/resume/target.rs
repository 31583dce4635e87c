//! The target of a transfer, as the records of its progress describe it: a process that resumes a
//! transfer, or adds a part to it, must not count progress for bytes that were removed or cut off
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
pub(in crate::transfer) struct Held {
    /// Of a local file its inode. Records of an import lie in the file itself.
    pub(in crate::transfer) file: Option<u64>,
    /// Bytes that it had; of a view, bytes up to its end.
    pub(in crate::transfer) size: u64,
}

impl Held {
    /// The reason why the target `now` has lost bytes that a record of `then` names; `None`: it has
    /// not.
    ///
    /// Records of versions that did not note the target are judged by an empty target alone.
    pub(in crate::transfer) fn lost(then: Option<Held>, now: Option<Held>) -> Option<String> {
        let Some(now) = now else {
            return Some("is gone".to_owned());
        };
        let least = then.map_or(1, |then| then.size);
        if let Some(then) = then
            && let (Some(was), Some(is)) = (then.file, now.file)
            && was != is
        {
            return Some("is another file than it was".to_owned());
        }
        match now.size {
            0 if least > 0 => Some("is empty".to_owned()),
            size if size < least => Some(format!("has {size} bytes, and had {least}")),
            _ => None,
        }
    }
}

/// The target of a transfer.
pub(in crate::transfer) enum Target {
    /// A local file: its path, and what it is once it is open.
    Local(PathBuf, OnceLock<Held>),
    /// A view, and how many bytes it holds at least while the transfer runs, if that is known.
    View(Arc<OpenView>, Option<u64>),
}

impl Target {
    /// A local file that is still to be opened.
    pub(in crate::transfer) fn local(path: &Path) -> Target {
        Target::Local(path.to_owned(), OnceLock::new())
    }

    /// The local file is open, and has this inode and as many bytes.
    pub(in crate::transfer) fn opened(&self, inode: u64, size: u64) {
        if let Target::Local(_, open) = self {
            let file = Some(inode);
            // Opened once.
            let _ = open.set(Held { file, size });
        }
    }

    /// What is there now; `None`: nothing.
    pub(in crate::transfer) async fn now(&self) -> Result<Option<Held>> {
        match self {
            Target::Local(path, _) => {
                let there = look(path).await?;
                Ok(there.map(|there| Held {
                    file: Some(there.ino()),
                    size: there.len(),
                }))
            }
            Target::View(view, _) => {
                let (file, size) = (None, view.size().await?);
                Ok(Some(Held { file, size }))
            }
        }
    }

    /// The target as a record can describe it; nothing of a local file that is not open yet.
    pub(in crate::transfer) async fn claim(&self) -> Result<Option<Held>> {
        match self {
            Target::Local(_, open) => Ok(open.get().copied()),
            Target::View(_, Some(size)) => Ok(Some(Held {
                file: None,
                size: *size,
            })),
            Target::View(_, None) => self.now().await,
        }
    }
}

/// What is at a local path; `None`: nothing.
pub(in crate::transfer) async fn look(path: &Path) -> Result<Option<Metadata>> {
    let place = name::bytes(path.as_os_str());
    match local::at(place, |place| std::fs::metadata(place)).await {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("cannot look at {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_cut_or_another_file_has_lost_bytes() {
        let held = |file, size| Some(Held { file, size });
        let lost = |then, now| Held::lost(then, now).unwrap_or_default();
        for then in [None, held(Some(7), 100), held(None, 100)] {
            assert_eq!(lost(then, None), "is gone");
            assert_eq!(lost(then, held(None, 0)), "is empty");
            assert_eq!(lost(then, held(Some(7), 100)), "");
        }
        let then = held(Some(7), 100);
        assert!(lost(then, held(Some(8), 100)).contains("another file"));
        assert_eq!(lost(then, held(Some(7), 99)), "has 99 bytes, and had 100");
        assert_eq!(lost(then, held(Some(7), 101)), "");
        // Zeros need not be written, so a view may end before them.
        assert_eq!(lost(held(None, 0), held(None, 0)), "");
    }

    #[tokio::test]
    async fn a_local_file_is_told_from_the_one_that_takes_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let target = Target::local(&path);
        assert_eq!(target.now().await.unwrap(), None);
        assert_eq!(target.claim().await.unwrap(), None);
        std::fs::write(&path, b"12345").unwrap();
        target.opened(std::fs::metadata(&path).unwrap().ino(), 5);
        let claim = target.claim().await.unwrap();
        assert_eq!(claim, target.now().await.unwrap());
        // While the first is there, the second cannot have its inode.
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        std::fs::write(&path, b"12345").unwrap();
        let lost = Held::lost(claim, target.now().await.unwrap());
        assert!(lost.unwrap().contains("another file"));
    }
}
