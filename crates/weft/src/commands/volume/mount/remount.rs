//! `-o remount`: changes the options of a mount. Those that the kernel enforces (`ro`, `nosuid`,
//! `noatime`, …) change at once; those that the mount's process was started with cannot.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use weft_mount::fs::OPTIONS_XATTR;
use weft_mount::fuse;

use super::options::MountOptions;
use super::path::real;

/// Changes the mount on a path by the options that are named; returns the path as the kernel has
/// it.
pub(super) fn remount(path: &Path, options: &MountOptions) -> Result<PathBuf> {
    let path = real(&std::path::absolute(path)?);
    if fuse::mounted_on(&path)?.is_none() {
        bail!("no volume is mounted on {}", path.display());
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "only root can change the options of the mount on {}: unmount it and mount it again",
            path.display()
        );
    }
    let has = match options.fixed().next() {
        Some(_) => fuse::told(&path, OPTIONS_XATTR).unwrap_or_default(),
        None => String::new(),
    };
    let has: Vec<&str> = has.split(',').collect();
    if let Some(other) = options.fixed().find(|word| !has.contains(&word.as_str())) {
        bail!(
            "`{other}` cannot be changed while the volume is mounted: unmount {} and mount it again",
            path.display()
        );
    }
    let words: Vec<&str> = options.text.split(',').collect();
    fuse::remount(&path, &words)?;
    Ok(path)
}
