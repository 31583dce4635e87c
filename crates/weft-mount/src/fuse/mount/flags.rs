//! Mount options that the kernel enforces (`ro`, `nosuid`, `noatime`, …): as words, as bits, and
//! what they mean for access times, which the mount implements itself.

use rustix::mount::MountFlags as Bits;

use crate::fs::AccessTimes;

/// The kernel's options of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountFlags(Bits);

/// At most one of these is set; without any the kernel takes `relatime`.
const ATIME: Bits = Bits::NOATIME.union(Bits::RELATIME).union(Bits::STRICTATIME);

impl Default for MountFlags {
    fn default() -> MountFlags {
        MountFlags(Bits::empty())
    }
}

impl MountFlags {
    /// Applies a word of an option list; false if it is not one of the kernel's.
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

    /// From the two lists in the table of mounts: the mount's and the file system's.
    pub(super) fn shown(mount: &str, file_system: &str) -> MountFlags {
        let mut flags = MountFlags::default();
        for word in mount.split(',') {
            flags.take(word);
        }
        if !flags.0.intersects(ATIME) {
            flags.0 |= Bits::STRICTATIME;
        }
        // A writable file system does not make a read-only mount writable.
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

    /// How reads change access times.
    pub(in crate::fuse) fn access_times(self) -> AccessTimes {
        AccessTimes {
            never: self.0.intersects(Bits::RDONLY | Bits::NOATIME),
            always: self.0.contains(Bits::STRICTATIME),
            directories: !self.0.contains(Bits::NODIRATIME),
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
    fn the_last_of_several_conflicting_options_wins() {
        assert_eq!(of("ro,rw"), MountFlags::default());
        assert_eq!(of("noatime,relatime"), of("relatime"));
        assert_eq!(of("strictatime,noatime"), of("noatime"));
        assert_eq!(of("noatime,atime"), MountFlags::default());
        assert!(!MountFlags::default().take("strict"));
    }

    #[test]
    fn flags_read_from_the_table_are_those_that_were_set() {
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
