//! Why a volume cannot be mounted, remounted or unmounted.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The helper that mounts for users other than root.
pub(super) const HELPER: &str = "fusermount3";

/// What was asked of the kernel or the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAction {
    /// Mount a volume on a path.
    Mount,
    /// Change the options of a mount.
    Remount,
    /// Unmount.
    Unmount,
}

impl fmt::Display for MountAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MountAction::Mount => "mount on",
            MountAction::Remount => "remount",
            MountAction::Unmount => "unmount",
        })
    }
}

/// Why a path cannot be mounted on, remounted or unmounted.
#[derive(Debug, Error)]
pub enum MountError {
    /// The kernel has no FUSE, or this process may not use it.
    #[error(
        "cannot open /dev/fuse: {0}; load the kernel's module `fuse` (`modprobe fuse`), and give a container the device"
    )]
    NoDevice(#[source] io::Error),
    /// The kernel refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Refused {
        /// What was asked.
        action: MountAction,
        /// The mount point.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The helper is not installed.
    #[error(
        "cannot {} without the helper {HELPER}, which cannot be run: {source}; install the package fuse3, or run weft as root",
        .action.verb()
    )]
    NoHelper {
        /// What was asked.
        action: MountAction,
        /// Why the helper cannot be started.
        source: io::Error,
    },
    /// The helper failed.
    #[error("cannot {action} {}: {HELPER} says: {message}", path.display())]
    Helper {
        /// What was asked.
        action: MountAction,
        /// The mount point.
        path: PathBuf,
        /// The helper's message.
        message: String,
    },
    /// The mount cannot become read-only while files are open for writing.
    #[error(
        "cannot make {} read-only: files on it are open for writing, or were removed while open; close them first",
        .0.display()
    )]
    Written(PathBuf),
    /// Programs use the mount.
    #[error("{} is in use", .0.display())]
    Busy(PathBuf),
    /// The kernel's protocol is too old.
    #[error(
        "the kernel's FUSE is version {major}.{minor}; the oldest supported one is 7.31 (Linux 5.4)"
    )]
    Version {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The kernel offers no FUSE over io_uring, which was asked for.
    #[error("cannot use io_uring: {0}")]
    NoRings(String),
    /// The device failed after the mount.
    #[error("cannot talk to the kernel: {0}")]
    Device(#[from] io::Error),
}

impl MountAction {
    /// The action without its preposition: `mount`.
    fn verb(self) -> &'static str {
        match self {
            MountAction::Mount => "mount",
            MountAction::Remount => "remount",
            MountAction::Unmount => "unmount",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One error of each kind, with the values that its message must name.
    fn all() -> Vec<(MountError, Vec<&'static str>)> {
        let source = || io::Error::other("no luck");
        let path = || PathBuf::from("/mnt/x");
        let errors = vec![
            (MountError::NoDevice(source()), vec!["/dev/fuse", "no luck"]),
            (
                MountError::Refused {
                    action: MountAction::Mount,
                    path: path(),
                    source: source(),
                },
                vec!["mount on /mnt/x", "no luck"],
            ),
            (
                MountError::NoHelper {
                    action: MountAction::Unmount,
                    source: source(),
                },
                vec!["unmount", HELPER, "no luck"],
            ),
            (
                MountError::Helper {
                    action: MountAction::Remount,
                    path: path(),
                    message: "bad luck".into(),
                },
                vec!["remount /mnt/x", HELPER, "bad luck"],
            ),
            (MountError::Written(path()), vec!["/mnt/x"]),
            (MountError::Busy(path()), vec!["/mnt/x"]),
            (MountError::Version { major: 7, minor: 9 }, vec!["7.9"]),
            (MountError::NoRings("bad luck".into()), vec!["bad luck"]),
            (MountError::Device(source()), vec!["no luck"]),
        ];
        for (error, _) in &errors {
            // A new variant is missing above.
            match error {
                MountError::NoDevice(_)
                | MountError::Refused { .. }
                | MountError::NoHelper { .. }
                | MountError::Helper { .. }
                | MountError::Written(_)
                | MountError::Busy(_)
                | MountError::Version { .. }
                | MountError::NoRings(_)
                | MountError::Device(_) => {}
            }
        }
        errors
    }

    #[test]
    fn messages_name_their_values_in_one_line_without_a_full_stop() {
        for (error, named) in all() {
            let text = error.to_string();
            for value in named {
                assert!(text.contains(value), "{text:?} does not name {value}");
            }
            let first = text.chars().next().unwrap();
            assert!(first.is_lowercase() || first == '/', "{text}");
            assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
        }
    }
}
