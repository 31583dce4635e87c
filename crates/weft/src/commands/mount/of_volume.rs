//! Mounts that come and go with a volume on this machine.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use weft_mount::fs::VOLUME_XATTR;
use weft_mount::fuse::{self, Mounted};

use super::Mount;
use crate::Global;
use crate::commands::unmount::unmount;
use crate::volume_config::{Config, hex, volume_id};

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
    take_along(config, &path)?;
    Ok(path)
}

/// Has [`unmount_of`] take this mount away.
pub(crate) fn take_along(config: &Config, path: &Path) -> Result<()> {
    let note = config.base.join(NOTE);
    std::fs::write(&note, path.as_os_str().as_encoded_bytes())
        .with_context(|| format!("cannot write {}", note.display()))
}

/// Before a volume stops: takes away what [`with_volume`] mounted, and refuses while it is mounted elsewhere.
pub(crate) fn unmount_of(config: &Config, wait: Duration) -> Result<()> {
    let note = config.base.join(NOTE);
    let ours = std::fs::read_to_string(&note).map(PathBuf::from).ok();
    for mounted in fuse::mounted()? {
        if !is_of(config, &mounted)? {
            continue;
        }
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

/// Whether this volume is mounted on `path`, and served.
pub(crate) fn is_of_volume(config: &Config, path: &Path) -> Result<bool> {
    if fuse::is_dead(path) {
        return Ok(false);
    }
    let Ok(path) = std::fs::canonicalize(path) else {
        return Ok(false);
    };
    let mounted = fuse::mounted_on(&path)?;
    mounted.map_or(Ok(false), |mounted| is_of(config, &mounted))
}

/// Whether this volume is what is mounted there. Names do not tell: one volume may be mounted by its folder, by any address that its
/// service has, and under any name (`-o fsname`). So the mount is asked; only of one that does not answer its source decides.
fn is_of(config: &Config, mounted: &Mounted) -> Result<bool> {
    if let Some(volume) = told(&mounted.path) {
        // Without its key nobody has mounted it from here.
        return Ok(config
            .key()
            .is_ok_and(|key| volume == hex(&volume_id(&key))));
    }
    let folder = std::fs::canonicalize(&config.base)?;
    Ok(mounted.source == folder || mounted.source.to_str() == Some(&config.meta.address))
}

/// How long a mount may take to say which volume it is: it need not ask anybody.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// Which volume a mount says that it is: nothing where its process is gone or stopped, or is another user's.
fn told(path: &Path) -> Option<String> {
    let (tell, answer) = mpsc::channel();
    let path = path.to_owned();
    // Stays behind where there is no answer, and ends with this process.
    thread::spawn(move || {
        let mut value = [0; 64];
        let length = rustix::fs::getxattr(&path, VOLUME_XATTR, &mut value[..]).unwrap_or(0);
        let _ = tell.send(String::from_utf8_lossy(&value[..length]).into_owned());
    });
    let said = answer.recv_timeout(ANSWERS_WITHIN).ok();
    said.filter(|volume| !volume.is_empty())
}
