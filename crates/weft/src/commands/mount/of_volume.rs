//! Mounts that come and go with a volume on this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use weft_mount::fuse;

use super::Mount;
use crate::Global;
use crate::commands::unmount::unmount;
use crate::volume_config::Config;

/// In the volume's folder: where `weft up --mount` mounted it.
const NOTE: &str = "mounted";

/// Mounts a volume that was just started; [`unmount_of`] takes it away.
pub(crate) fn with_volume(config: &Config, path: &Path) -> Result<PathBuf> {
    let global = Global {
        volume: Some(config.base.clone()),
        address: None,
        key: None,
    };
    let mount = Mount {
        path: path.to_owned(),
        options: super::MountOptions::default(),
        foreground: false,
        log: None,
        report: false,
    };
    let path = super::in_background(&global, &mount)?;
    let note = config.base.join(NOTE);
    std::fs::write(&note, path.as_os_str().as_encoded_bytes())
        .with_context(|| format!("cannot write {}", note.display()))?;
    Ok(path)
}

/// Before a volume stops: takes away what [`with_volume`] mounted, and refuses while it is mounted elsewhere.
pub(crate) fn unmount_of(config: &Config, wait: Duration) -> Result<()> {
    let folder = std::fs::canonicalize(&config.base)?;
    let note = config.base.join(NOTE);
    let ours = std::fs::read_to_string(&note).map(PathBuf::from).ok();
    for mounted in fuse::mounted()?.into_iter().filter(|m| m.source == folder) {
        if ours.as_ref() == Some(&mounted.path) {
            unmount(&mounted.path, false, wait)?;
        } else if !fuse::is_dead(&mounted.path) {
            bail!(
                "the volume is mounted on {}: `weft unmount {}` first, so that what was written there is not lost",
                mounted.path.display(),
                mounted.path.display()
            );
        }
    }
    if ours.is_some() {
        std::fs::remove_file(&note)?;
    }
    Ok(())
}
