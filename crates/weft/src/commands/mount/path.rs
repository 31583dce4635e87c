//! The path that a volume is to be mounted on.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use weft_mount::fuse;

use crate::output;

/// Checks the path and makes it whole; takes a dead mount away from it, and says so.
pub(super) fn prepare(path: &Path) -> Result<PathBuf> {
    let whole = std::path::absolute(path)?;
    if fuse::is_dead(&whole) {
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
