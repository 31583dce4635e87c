//! Whether a mount is alive, and which process serves it. A mount may hang, so every probe has a
//! time limit.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use rustix::io::Errno;

use super::table::Mounted;
use crate::limits::PROBE_TIMEOUT;

/// The outcome of a call that a mount must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It answered, or the path is not a mount.
    Answered,
    /// The mount's process has ended: every use of the path fails.
    Dead,
    /// No answer came in time: the process is stopped or blocked.
    Silent,
}

/// Probes a path that may be a mount whose process has ended or does not answer. Asks for the free
/// space, which the kernel, unlike attributes, never answers from its cache.
pub fn look(path: &Path) -> Probe {
    let path = path.to_owned();
    let space = with_timeout(move || rustix::fs::statfs(path.as_os_str().as_bytes()).err());
    match space {
        None => Probe::Silent,
        Some(Some(Errno::NOTCONN | Errno::CONNABORTED)) => Probe::Dead,
        // The mount may report that the volume is unreachable.
        Some(_) => Probe::Answered,
    }
}

/// Whether a path is a mount whose process has ended; false if there is no answer.
pub fn is_dead(path: &Path) -> bool {
    look(path) == Probe::Dead
}

/// An extended attribute of a mount's root; `None` if the mount does not answer in time.
pub fn told(path: &Path, name: &'static str) -> Option<String> {
    let path = path.to_owned();
    let value = with_timeout(move || {
        let mut value = [0; 256];
        let length = rustix::fs::getxattr(&path, name, &mut value[..]).ok()?;
        Some(String::from_utf8_lossy(&value[..length]).into_owned())
    });
    value.flatten()
}

/// Makes a call that may never return: then its thread lives on until this process ends. `None`
/// also if no thread can be started.
fn with_timeout<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, answer) = mpsc::channel();
    let call = move || {
        let _ = sender.send(call());
    };
    std::thread::Builder::new().spawn(call).ok()?;
    answer.recv_timeout(PROBE_TIMEOUT).ok()
}

/// The process behind a mount, found without its help: by its descriptor of `/dev/fuse`, for which
/// Linux 6.6 and later name the mount.
pub fn process_of(mounted: &Mounted) -> Option<i32> {
    let (_, minor) = mounted.device.split_once(':')?;
    let pids = entries("/proc".into()).filter_map(|e| e.file_name()?.to_str()?.parse().ok());
    pids.into_iter().find(|pid: &i32| {
        let of = |fd: PathBuf| std::fs::read_to_string(fd).unwrap_or_default();
        entries(format!("/proc/{pid}/fdinfo").into()).any(|fd| connects(&of(fd), minor))
    })
}

/// The process behind a mount, if it is stopped (`kill -STOP`, a debugger): then the mount does not
/// answer until it continues. `None` also if [`process_of`] finds no process.
pub fn stopped_process(mounted: &Mounted) -> Option<i32> {
    process_of(mounted).filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| is_stopped(&stat))
    })
}

/// The state follows the name, which may hold any character.
fn is_stopped(stat: &str) -> bool {
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| matches!(rest.trim_start().chars().next(), Some('T' | 't')))
}

/// `fuse_connection: 44`, with a tab.
fn connects(fdinfo: &str, minor: &str) -> bool {
    let mut lines = fdinfo.lines();
    lines.any(|line| {
        let number = line.strip_prefix("fuse_connection:");
        number.is_some_and(|number| number.trim() == minor)
    })
}

fn entries(folder: PathBuf) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_is_recognized_by_its_state() {
        for (stat, stopped) in [
            ("7 (weft) T 1 7 7 0", true),
            ("7 (weft) t 1 7 7 0", true),
            ("7 (weft) S 1 7 7 0", false),
            ("7 (a) T (b) S 1 7 7 0", false),
            ("", false),
        ] {
            assert_eq!(is_stopped(stat), stopped, "{stat}");
        }
    }

    #[test]
    fn a_descriptor_names_its_mount() {
        let fdinfo = "pos:\t0\nflags:\t02100002\nfuse_connection:\t44\n";
        assert!(connects(fdinfo, "44"));
        assert!(!connects(fdinfo, "4"));
        assert!(!connects("pos:\t44\n", "44"));
    }
}
