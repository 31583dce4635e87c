//! Mounts that `weft up` and `weft down` make and remove with a volume on this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use weft_mount::fs::VOLUME_XATTR;
use weft_mount::fuse::{self, Mounted, Probe};

use super::args::Mount;
use super::background;
use super::detach::unmount;
use crate::args::Global;
use crate::volume_config::{Config, FILE, LocalVolume, hex};

/// The file in the volume's folder that holds the mount point of `weft up --mount`.
const NOTE: &str = "mounted";

/// Mounts a volume that was just started; [`unmount_of`] unmounts it.
pub(crate) fn with_volume(config: &Config, path: &Path) -> Result<PathBuf> {
    let global = Global::of_folder(config.base.clone());
    let path = background::start(&global, &Mount::on(path.to_owned()))?;
    record_mount(config, &path)?;
    Ok(path)
}

/// Records a mount, for [`unmount_of`].
pub(crate) fn record_mount(config: &Config, path: &Path) -> Result<()> {
    let note = config.base.join(NOTE);
    std::fs::write(&note, path.as_os_str().as_encoded_bytes())
        .with_context(|| format!("cannot write {}", note.display()))
}

/// Unmounts what [`with_volume`] mounted, before a volume stops. Refuses, and unmounts nothing, if
/// it is mounted elsewhere, too.
pub(crate) fn unmount_of(volume: &LocalVolume, wait: Duration) -> Result<()> {
    let note = volume.base().join(NOTE);
    let ours = std::fs::read_to_string(&note).map(PathBuf::from).ok();
    let (mut own, mut others) = (None, Vec::new());
    for mounted in fuse::mounted()? {
        let stopped = fuse::stopped_process(&mounted);
        if !is_of(volume, &mounted, stopped.is_some())? {
            continue;
        }
        if ours.as_ref() == Some(&mounted.path) {
            own = Some(mounted.path);
        } else if let Some(pid) = stopped {
            bail!(
                "the volume is mounted on {path}, and the mount's process {pid} is stopped: resume it (`kill -CONT {pid}`), then run \
                 `weft unmount {path}`, so that no written data is lost",
                path = mounted.path.display()
            );
        } else if !fuse::is_dead(&mounted.path) {
            others.push(mounted.path);
        }
    }
    // Nothing is unmounted unless all is.
    if !others.is_empty() {
        let paths = |as_text: fn(&PathBuf) -> String| {
            let texts: Vec<String> = others.iter().map(as_text).collect();
            texts.join(" and ")
        };
        bail!(
            "the volume is mounted on {}: run {} first, so that no written data is lost",
            paths(|path| path.display().to_string()),
            paths(|path| format!("`weft unmount {}`", path.display()))
        );
    }
    if let Some(path) = own {
        unmount(&path, false, wait)?;
    }
    if ours.is_some() {
        std::fs::remove_file(&note)?;
    }
    Ok(())
}

/// Whether this volume is mounted on `path`, and served.
pub(crate) fn is_of_volume(config: &Config, path: &Path) -> Result<bool> {
    if fuse::look(path) != Probe::Answered {
        return Ok(false);
    }
    let Ok(path) = std::fs::canonicalize(path) else {
        return Ok(false);
    };
    let mounted = fuse::mounted_on(&path)?;
    let volume = LocalVolume::of(config.clone());
    mounted.map_or(Ok(false), |mounted| is_of(&volume, &mounted, false))
}

/// Whether this volume is mounted there. The source in the table of mounts does not tell: a volume
/// may be mounted by its folder, by any address of its service, and under any name (`-o fsname`).
/// So the mount is asked, unless it is `silent`; its source decides only if it does not respond.
fn is_of(volume: &LocalVolume, mounted: &Mounted, silent: bool) -> Result<bool> {
    let folder = std::fs::canonicalize(volume.base())?;
    // A mount that names the folder of another volume is not asked: that would disturb its
    // unmounting.
    let names_another =
        |source: &Path| source.is_absolute() && source.join(FILE).is_file() && *source != folder;
    if names_another(Path::new(&mounted.source)) {
        return Ok(false);
    }
    let ask = || fuse::told(&mounted.path, VOLUME_XATTR);
    let reported = (!silent).then(ask).flatten();
    if let Some(reported) = reported.filter(|id| !id.is_empty()) {
        // Without the volume's key, no process of this machine can have mounted it.
        return Ok(volume.id().is_some_and(|id| reported == hex(&id)));
    }
    let by_address = |address| mounted.source.to_str() == Some(address);
    Ok(mounted.source == folder || volume.address().is_some_and(by_address))
}
