//! What is mounted, by the name that the kernel and other processes know it by.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::args::Global;

/// What the kernel's table shows: the volume's folder, or its address.
pub(super) fn source(global: &Global) -> Result<OsString> {
    if let Some(address) = &global.address {
        return Ok(address.into());
    }
    Ok(folder(global)?.into_os_string())
}

/// The volume's folder, whole, so that the command line of a process in the background names it.
pub(super) fn folder(global: &Global) -> Result<PathBuf> {
    let folder = global
        .volume
        .clone()
        .unwrap_or_else(|| "weft-volume".into());
    std::fs::canonicalize(&folder)
        .with_context(|| format!("cannot use the volume's folder {}", folder.display()))
}
