//! Files and folders that only their owner may use: folders with the mode 0700 and files with 0600,
//! whatever the umask.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::Mode;

/// The mode of a folder.
pub(crate) const FOLDER_MODE: u32 = 0o700;
/// The mode of a file.
pub(crate) const FILE_MODE: u32 = 0o600;
/// The bits of users other than the owner.
pub(crate) const OTHERS: u32 = 0o077;

/// Denies other users access to files that this process or its libraries create from now on.
pub(crate) fn narrow_umask() {
    rustix::process::umask(Mode::from_raw_mode(OTHERS));
}

/// Makes a folder and its missing parents.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(path)
}

/// Options that open a file for writing, and make it if it is missing.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(FILE_MODE);
    options
}

/// Opens a log for appending.
pub(crate) fn open_log(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(FILE_MODE);
    let log = options.open(path);
    log.with_context(|| format!("cannot open the log {}", path.display()))
}

/// Replaces a small file atomically. On return the new content survives power loss.
pub(crate) fn write_durably(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let beside = path.with_extension("new");
        let mut file = options().truncate(true).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        let mut folders = path.ancestors().skip(1);
        if let Some(folder) = folders.next() {
            File::open(folder)?.sync_all()?;
        }
        // The folder may be new, too. Its parent is synced if this process may read it.
        if let Some(Ok(above)) = folders.next().map(File::open) {
            above.sync_all()?;
        }
        std::io::Result::Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
