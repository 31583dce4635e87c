//! A mount in the background: a process of its own, which reports once whether it is mounted.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::args::Mount;
use super::path;
use super::source::folder;
use crate::args::Global;
use crate::process::private_files::{make_folder, open_log};
use crate::remote::connect;
use crate::terminal::output;

/// The report of success. Anything else is the reason for a failure.
const READY: &str = "mounted";

/// Starts the process; returns when the mount can be used, with the path as the kernel has it.
pub(crate) fn start(global: &Global, mount: &Mount) -> Result<PathBuf> {
    let path = path::prepare(&mount.path)?;
    let mut command = Command::new(std::env::current_exe()?);
    if let (Some(address), Some(key)) = (global.address(), global.key()) {
        // A problem with the key is reported here, not only in the log.
        connect::options(global)?;
        command.arg("--address").arg(address);
        command.arg("--key-file").arg(std::path::absolute(key)?);
    } else {
        command.arg("--volume").arg(folder(global)?);
    }
    if let Some(wire) = global.wire() {
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
        .context("cannot start the process of the mount")?;
    let mut words = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut words)?;
    }
    if words == READY {
        return Ok(path);
    }
    let exit = child.wait()?;
    if words.is_empty() {
        bail!("the process of the mount ended without a report ({exit}): see its log");
    }
    bail!("{words}")
}

/// Reports the outcome to the process that started this one: an empty text is success. Nothing
/// follows it.
pub(super) fn report(error: &str) -> Result<()> {
    let mut out = std::io::stdout();
    out.write_all(if error.is_empty() {
        READY.as_bytes()
    } else {
        error.as_bytes()
    })?;
    out.flush()?;
    // The other end reads until end of file.
    let nothing = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(())
}

/// The log of the process: as requested, else in the first writable folder of [`log_folders`].
/// Warns if there is none.
fn log(global: &Global, mount: &Mount, path: &Path) -> Result<Stdio> {
    if let Some(log) = mount.log.as_ref().or(mount.options.log.as_ref()) {
        return Ok(open_log(log)?.into());
    }
    let in_volume = match global.address() {
        Some(_) => None,
        None => Some(folder(global)?.join("log")),
    };
    let root = rustix::process::geteuid().is_root();
    let name = log_name(path);
    let mut failed = None;
    for folder in in_volume
        .into_iter()
        .chain(log_folders(root, std::env::var_os))
    {
        let opened = make_folder(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))
            .and_then(|()| open_log(&folder.join(&name)));
        match opened {
            Ok(log) => return Ok(log.into()),
            Err(error) => failed = Some(error),
        }
    }
    let why = failed.map_or_else(
        || "there is no home directory".to_owned(),
        |error| output::error(&error),
    );
    output::say(format_args!(
        "weft: the mount on {} has no log: {why}; name a file by --log FILE or -o log=FILE",
        path.display()
    ));
    Ok(Stdio::null())
}

/// Log folders of mounts without access to the volume's folder, in order of preference: the
/// machine's logs for root, else the state of the user's programs (XDG Base Directory
/// Specification).
fn log_folders(root: bool, variable: impl Fn(&'static str) -> Option<OsString>) -> Vec<PathBuf> {
    let named = |name| {
        let folder = variable(name).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    };
    let of_machine = root.then(|| "/var/log/weft".into());
    let state = named("XDG_STATE_HOME").or_else(|| named("HOME").map(|h| h.join(".local/state")));
    let of_user = state.map(|state| state.join("weft"));
    of_machine.into_iter().chain(of_user).collect()
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

    #[test]
    fn a_mount_by_address_logs_to_the_machine_or_else_the_user() {
        let folders = |root, set: &[(&str, &str)]| {
            let of = |name| set.iter().find(|(n, _)| *n == name);
            let found = log_folders(root, |name| of(name).map(|(_, value)| value.into()));
            let found: Vec<_> = found.iter().map(|f| f.display().to_string()).collect();
            found.join(" ")
        };
        let home = ("HOME", "/home/a");
        assert_eq!(
            folders(true, &[home]),
            "/var/log/weft /home/a/.local/state/weft"
        );
        assert_eq!(folders(true, &[]), "/var/log/weft");
        assert_eq!(folders(false, &[home]), "/home/a/.local/state/weft");
        let state = ("XDG_STATE_HOME", "/s");
        assert_eq!(folders(false, &[home, state]), "/s/weft");
        let relative = ("XDG_STATE_HOME", "s");
        assert_eq!(
            folders(false, &[home, relative]),
            "/home/a/.local/state/weft"
        );
        assert_eq!(folders(false, &[]), "");
    }
}
