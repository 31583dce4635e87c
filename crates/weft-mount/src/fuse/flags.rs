//! Options that are the kernel's own (`ro`, `nosuid`, `noatime`, …): as words, as it keeps them,
//! and their change while the volume is mounted.
//!
//! A remount changes them without a word to the mount: the kernel keeps to them by itself, but for
//! those of access times, which are the mount's to keep. [`Current`] asks the kernel's table of
//! mounts for those, and reads it only when the kernel says that it has changed.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::MountFlags as Bits;

use super::attach::MountError;
use super::table;
use crate::fs::AccessTimes;

/// What the kernel keeps of how a volume is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountFlags(Bits);

/// The flags of which one at most is set: without any the kernel takes `relatime`.
const ATIME: Bits = Bits::NOATIME.union(Bits::RELATIME).union(Bits::STRICTATIME);

impl Default for MountFlags {
    fn default() -> MountFlags {
        MountFlags(Bits::empty())
    }
}

impl MountFlags {
    /// Changes the flags as a word of a list of options says; false if it is none of the kernel's.
    pub fn take(&mut self, word: &str) -> bool {
        let (off, on) = match word {
            "ro" => (Bits::empty(), Bits::RDONLY),
            "rw" => (Bits::RDONLY, Bits::empty()),
            "nodev" => (Bits::empty(), Bits::NODEV),
            "dev" => (Bits::NODEV, Bits::empty()),
            "nosuid" => (Bits::empty(), Bits::NOSUID),
            "suid" => (Bits::NOSUID, Bits::empty()),
            "noexec" => (Bits::empty(), Bits::NOEXEC),
            "exec" => (Bits::NOEXEC, Bits::empty()),
            "noatime" => (ATIME, Bits::NOATIME),
            "relatime" => (ATIME, Bits::RELATIME),
            "strictatime" => (ATIME, Bits::STRICTATIME),
            "atime" => (Bits::NOATIME, Bits::empty()),
            "norelatime" => (Bits::RELATIME, Bits::empty()),
            "nostrictatime" => (Bits::STRICTATIME, Bits::empty()),
            "nodiratime" => (Bits::empty(), Bits::NODIRATIME),
            "diratime" => (Bits::NODIRATIME, Bits::empty()),
            "sync" => (Bits::empty(), Bits::SYNCHRONOUS),
            "async" => (Bits::SYNCHRONOUS, Bits::empty()),
            "dirsync" => (Bits::empty(), Bits::DIRSYNC),
            "lazytime" => (Bits::empty(), Bits::LAZYTIME),
            "nolazytime" => (Bits::LAZYTIME, Bits::empty()),
            _ => return false,
        };
        self.0 = self.0.difference(off).union(on);
        true
    }

    /// As the table of mounts shows them: those of the mount, and those of the file system.
    pub(super) fn shown(mount: &str, file_system: &str) -> MountFlags {
        let mut flags = MountFlags::default();
        for word in mount.split(',') {
            flags.take(word);
        }
        if !flags.0.intersects(ATIME) {
            flags.0 |= Bits::STRICTATIME;
        }
        // That the file system can be written makes no mount writable that is not.
        for word in file_system.split(',').filter(|word| *word != "rw") {
            flags.take(word);
        }
        flags
    }

    /// For mount(2).
    pub(super) fn bits(self) -> Bits {
        self.0
    }

    /// The words that `fusermount3` understands.
    pub(super) fn words(self) -> impl Iterator<Item = &'static str> {
        let words = [
            (Bits::RDONLY, "ro"),
            (Bits::NODEV, "nodev"),
            (Bits::NOSUID, "nosuid"),
            (Bits::NOEXEC, "noexec"),
            (Bits::NOATIME, "noatime"),
            (Bits::NODIRATIME, "nodiratime"),
        ];
        let set = words
            .into_iter()
            .filter(move |(bit, _)| self.0.contains(*bit));
        set.map(|(_, word)| word)
    }

    /// What reading does to access times.
    pub(super) fn access_times(self) -> AccessTimes {
        AccessTimes {
            never: self.0.intersects(Bits::RDONLY | Bits::NOATIME),
            always: self.0.contains(Bits::STRICTATIME),
            directories: !self.0.contains(Bits::NODIRATIME),
        }
    }
}

/// Changes how a volume is mounted, by words of a list of options; what they do not name stays as
/// it is.
pub fn remount(path: &Path, words: &[&str]) -> Result<(), MountError> {
    let refused = |source: Errno| MountError::Refused {
        doing: "remount",
        path: path.to_owned(),
        source: source.into(),
    };
    let mounted = table::mounted_on(path)?.ok_or_else(|| refused(Errno::INVAL))?;
    let mut flags = mounted.flags;
    for word in words {
        flags.take(word);
    }
    rustix::mount::mount_remount(path, flags.bits(), "").map_err(|errno| match errno {
        Errno::BUSY => MountError::Written(path.to_owned()),
        errno => refused(errno),
    })
}

/// How a volume is mounted at the moment.
pub(super) struct Current {
    path: PathBuf,
    table: Mutex<Table>,
}

struct Table {
    /// The kernel's table; nothing where it cannot be read: then it stays as it was.
    file: Option<File>,
    /// The device number of the mount's files, once it is known.
    device: Option<String>,
    flags: MountFlags,
}

impl Current {
    /// Of a mount that has just begun with these flags.
    pub(super) fn of(path: &Path, flags: MountFlags) -> Current {
        let mut table = Table {
            file: File::open(table::TABLE).ok(),
            device: None,
            flags,
        };
        table.read(path);
        Current {
            path: path.to_owned(),
            table: Mutex::new(table),
        }
    }

    /// The flags as they are now. One system call, which does not wait, unless the table has
    /// changed.
    pub(super) fn flags(&self) -> MountFlags {
        let mut table = self.table.lock();
        if table.has_changed() {
            table.read(&self.path);
        }
        table.flags
    }
}

impl Table {
    fn has_changed(&self) -> bool {
        let Some(file) = &self.file else { return false };
        let mut look = [PollFd::new(file, PollFlags::PRI)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut look, Some(&now)).is_ok_and(|changed| changed > 0)
    }

    fn read(&mut self, path: &Path) {
        let Some(file) = &mut self.file else { return };
        let mut text = Vec::new();
        let read = file.rewind().and_then(|()| file.read_to_end(&mut text));
        if let Err(error) = read {
            tracing::warn!(%error, "the table of mounts cannot be read: access times are kept as they were");
            return;
        }
        let ours = |m: &table::Mounted| self.device.as_ref().is_none_or(|of| *of == m.device);
        let mounts: Vec<_> = table::parse(&text).into_iter().filter(ours).collect();
        // A mount may have been moved, or be bound to further paths.
        let here = mounts.iter().rfind(|m| m.path == path);
        if let Some(mounted) = here.or_else(|| self.device.as_ref().and(mounts.first())) {
            self.flags = mounted.flags;
            self.device = Some(mounted.device.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> MountFlags {
        let mut flags = MountFlags::default();
        for word in words.split(',') {
            assert!(flags.take(word), "{word}");
        }
        flags
    }

    #[test]
    fn the_last_word_of_several_that_contradict_each_other_counts() {
        assert_eq!(of("ro,rw"), MountFlags::default());
        assert_eq!(of("noatime,relatime"), of("relatime"));
        assert_eq!(of("strictatime,noatime"), of("noatime"));
        assert_eq!(of("noatime,atime"), MountFlags::default());
        assert!(!MountFlags::default().take("strict"));
    }

    #[test]
    fn what_the_table_shows_is_what_was_set() {
        let shown = MountFlags::shown("rw,nosuid,noatime", "rw,user_id=0");
        assert_eq!(shown, of("nosuid,noatime"));
        assert_eq!(MountFlags::shown("rw", "rw"), of("strictatime"));
        assert_eq!(MountFlags::shown("rw,relatime", "ro"), of("ro,relatime"));
    }

    #[test]
    fn access_times_follow_the_options() {
        let times = |words| of(words).access_times();
        assert!(times("ro,strictatime").never && times("noatime").never);
        assert!(!times("relatime").never && !times("relatime").always);
        assert!(times("strictatime").always && times("strictatime").directories);
        assert!(!times("nodiratime").directories);
    }
}
