//! The name of a mounted volume, for the kernel and for other processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::args::Global;

/// The source in the kernel's table of mounts: the volume's folder, or its address.
pub(super) fn source(global: &Global) -> Result<OsString> {
    if let Some(address) = global.address() {
        return Ok(address.into());
    }
    Ok(folder(global)?.into_os_string())
}

/// The volume's folder as an absolute path, for the command line of a background process.
pub(super) fn folder(global: &Global) -> Result<PathBuf> {
    let folder = global.folder().unwrap_or(Path::new("weft-volume"));
    std::fs::canonicalize(folder)
        .with_context(|| format!("cannot use the volume's folder {}", folder.display()))
}
