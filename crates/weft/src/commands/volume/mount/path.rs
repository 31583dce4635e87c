//! The mount point of a volume.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use weft_mount::fuse::{self, Probe};

use crate::limits::LINKS_MAX;
use crate::terminal::output;

/// Checks a mount point and makes it absolute. Detaches a dead mount from it, and says so.
pub(crate) fn prepare(path: &Path) -> Result<PathBuf> {
    let whole = real(&std::path::absolute(path)?);
    let look = fuse::look(&whole);
    if look == Probe::Silent {
        bail!(
            "the mount on {} does not respond: its process may be stopped; see `weft unmount`",
            whole.display()
        );
    }
    if look == Probe::Dead {
        fuse::detach(&whole, true)
            .with_context(|| format!("cannot detach the dead mount on {}", whole.display()))?;
        output::say(format_args!(
            "weft: the process of the previous mount on {} was gone; detached that mount",
            whole.display()
        ));
    }
    let path = std::fs::canonicalize(&whole).with_context(|| {
        format!(
            "cannot mount on {}: make the directory first (mkdir -p)",
            whole.display()
        )
    })?;
    if !path.is_dir() {
        bail!("cannot mount on {}: it is not a directory", path.display());
    }
    if let Some(mounted) = fuse::mounted_on(&path)? {
        bail!(
            "{} is already mounted on {}: run `weft unmount {}` first",
            mounted.source.display(),
            path.display(),
            path.display()
        );
    }
    Ok(path)
}

/// The path with its symbolic links resolved. The last name may be a dead mount, which cannot be
/// accessed, so it is only read as a link.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Some((above, name)) = path.parent().zip(path.file_name()) else {
            break;
        };
        let above = std::fs::canonicalize(above).unwrap_or_else(|_| above.to_owned());
        let whole = above.join(name);
        match std::fs::read_link(&whole) {
            Ok(to) => path = above.join(to),
            Err(_) => return whole,
        }
    }
    path
}
