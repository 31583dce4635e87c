//! A note beside the namespace that its last shutdown was clean.
//!
//! The engine cannot tell damage in its journal from a torn write of a crash, and drops what
//! follows. After a clean shutdown there is no torn write; the note tells the two cases apart.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use weft_kv::OrderedKv;
use weft_meta::Namespace;

fn path(namespace: &Path) -> PathBuf {
    namespace.with_extension("closed")
}

fn sync_folder(note: &Path) -> Result<()> {
    if let Some(folder) = note.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Refuses a namespace that was shut down cleanly and is no longer complete.
pub(crate) fn check(namespace: &Path, kv: &dyn OrderedKv) -> Result<()> {
    let note = path(namespace);
    if !note.exists() {
        return Ok(());
    }
    if !Namespace::closed_cleanly(kv)? {
        bail!(
            "{} is damaged: it was closed whole, but its last changes are missing: restore it from a backup; or, to go on \
             without them, remove {} and start again",
            namespace.display(),
            note.display()
        );
    }
    // The removal is durable before the engine's own mark goes.
    std::fs::remove_file(&note)?;
    sync_folder(&note)
}

/// Removes the note: the missing changes are known and accepted.
pub(crate) fn forget(namespace: &Path) -> Result<()> {
    let note = path(namespace);
    if note.exists() {
        std::fs::remove_file(&note)?;
        sync_folder(&note)?;
    }
    Ok(())
}

/// Leaves the note after a clean shutdown.
pub(crate) fn leave(namespace: &Path, kv: &dyn OrderedKv) -> Result<()> {
    if Namespace::closed_cleanly(kv)? {
        let note = path(namespace);
        File::create(&note)?.sync_all()?;
        sync_folder(&note)?;
    }
    Ok(())
}
