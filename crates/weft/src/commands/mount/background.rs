//! A mount in the background: a process of its own that says once whether it worked.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Mount;
use crate::Global;
use crate::volume_config::{make_folder, open_log};

/// What the process says when it worked; anything else is why it did not.
const READY: &str = "mounted";

/// Starts the process; returns when the mount can be used, with the path as the kernel has it.
pub(crate) fn start(global: &Global, mount: &Mount) -> Result<PathBuf> {
    let path = super::path::prepare(&mount.path)?;
    let mut command = Command::new(std::env::current_exe()?);
    if let (Some(address), Some(key)) = (&global.address, &global.key) {
        command.arg("--address").arg(address);
        command.arg("--key-file").arg(fs::canonicalize(key)?);
    } else {
        command.arg("--volume").arg(super::folder(global)?);
    }
    if let Some(wire) = global.wire {
        command.arg("--wire").arg(wire.name());
    }
    command.args(["mount", "--foreground", "--report"]);
    if !mount.options.text.is_empty() {
        command.arg("-o").arg(&mount.options.text);
    }
    command.arg("--").arg(&path);
    command
        .env_remove("WEFT_VOLUME")
        .env_remove("WEFT_ADDRESS")
        .env_remove("WEFT_KEY_FILE")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log(global, mount, &path)?);
    let mut child = command
        .spawn()
        .context("cannot start the mount's process")?;
    let mut words = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut words)?;
    }
    if words == READY {
        return Ok(path);
    }
    let exit = child.wait()?;
    if words.is_empty() {
        bail!("the mount's process ended without a word ({exit})");
    }
    bail!("{words}")
}

/// Says to who started this process how it went: an empty text is success. Nothing more is said after it.
pub(super) fn report(error: &str) -> Result<()> {
    let mut out = std::io::stdout();
    out.write_all(if error.is_empty() {
        READY.as_bytes()
    } else {
        error.as_bytes()
    })?;
    out.flush()?;
    // Whoever reads the other end reads until its end.
    let nothing = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(())
}

/// Where the process writes: as asked, else in the volume's folder if that is writable, else nowhere.
fn log(global: &Global, mount: &Mount, path: &Path) -> Result<Stdio> {
    if let Some(log) = &mount.log {
        return Ok(open_log(log)?.into());
    }
    let in_folder = || -> Option<File> {
        let folder = super::folder(global).ok()?.join("log");
        make_folder(&folder).ok()?;
        open_log(&folder.join(log_name(path))).ok()
    };
    let file = if global.address.is_none() {
        in_folder()
    } else {
        None
    };
    Ok(file.map_or_else(Stdio::null, Into::into))
}

/// `mount-mnt-weft.log` for `/mnt/weft`.
fn log_name(path: &Path) -> String {
    let name: String = path
        .as_os_str()
        .as_bytes()
        .escape_ascii()
        .map(|b| {
            if b == b'/' || b == b'\\' {
                '-'
            } else {
                char::from(b)
            }
        })
        .collect();
    let mut name = format!("mount{name}");
    name.truncate(200);
    name + ".log"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_named_after_the_path() {
        assert_eq!(log_name(Path::new("/mnt/weft")), "mount-mnt-weft.log");
        assert!(log_name(Path::new(&format!("/{}", "x".repeat(4000)))).len() < 256);
    }
}
