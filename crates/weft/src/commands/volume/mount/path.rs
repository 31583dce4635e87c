//! The path that a volume is to be mounted on.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use weft_mount::fuse::{self, Look};

use crate::terminal::output;

/// Checks the path and makes it whole; takes a dead mount away from it, and says so.
pub(crate) fn prepare(path: &Path) -> Result<PathBuf> {
    let whole = real(&std::path::absolute(path)?);
    let look = fuse::look(&whole);
    if look == Look::Silent {
        bail!(
            "what is mounted on {} does not answer: its process may be stopped",
            whole.display()
        );
    }
    if look == Look::Dead {
        fuse::detach(&whole, true).with_context(|| {
            format!(
                "the mount on {} is dead and cannot be taken away",
                whole.display()
            )
        })?;
        output::say(format_args!(
            "weft: the process behind the mount on {} was gone; took that mount away",
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
        bail!("cannot mount on {}: it is no directory", path.display());
    }
    if let Some(mounted) = fuse::mounted_on(&path)? {
        bail!(
            "{} is on {} already; `weft unmount {}` takes it away",
            mounted.source.display(),
            path.display(),
            path.display()
        );
    }
    Ok(path)
}

/// Symbolic links on the way to a path, as its system has them: the same path without them. What a
/// dead mount covers cannot be looked into, so the last name is only read as a link.
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

/// As many as the kernel follows.
const LINKS_MAX: usize = 40;
