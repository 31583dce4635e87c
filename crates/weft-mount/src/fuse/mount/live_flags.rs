//! The mount options as they are at this moment. A remount changes them without a word to the
//! mount, and the kernel enforces all but those of access times, which the mount implements. So
//! [`LiveFlags`] looks them up in the kernel's table, and reads the table only when the kernel says
//! that it has changed.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::flags::MountFlags;
use super::table::{self, Mounted};

/// The current options of a mount.
pub(in crate::fuse) struct LiveFlags {
    path: PathBuf,
    table: Mutex<MountTable>,
}

struct MountTable {
    /// The kernel's table; `None` if it cannot be read: then the flags stay as they were.
    file: Option<File>,
    /// The device number of the mount's files, once it is known.
    device: Option<String>,
    flags: MountFlags,
}

impl LiveFlags {
    /// Of a mount that has just begun with these flags.
    pub(in crate::fuse) fn new(path: &Path, flags: MountFlags) -> LiveFlags {
        let mut table = MountTable {
            file: File::open(table::TABLE).ok(),
            device: None,
            flags,
        };
        table.read(path);
        LiveFlags {
            path: path.to_owned(),
            table: Mutex::new(table),
        }
    }

    /// The current flags. One system call, which does not wait, unless the table has changed.
    pub(in crate::fuse) fn get(&self) -> MountFlags {
        let mut table = self.table.lock();
        if table.has_changed() {
            table.read(&self.path);
        }
        table.flags
    }
}

impl MountTable {
    fn has_changed(&self) -> bool {
        let Some(file) = &self.file else { return false };
        let mut polled = [PollFd::new(file, PollFlags::PRI)];
        let no_wait = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut polled, Some(&no_wait)).is_ok_and(|changed| changed > 0)
    }

    fn read(&mut self, path: &Path) {
        let Some(file) = &mut self.file else { return };
        let mut text = Vec::new();
        let read = file.rewind().and_then(|()| file.read_to_end(&mut text));
        if let Err(error) = read {
            tracing::warn!(%error, "cannot read the table of mounts: keeping the previous atime options");
            return;
        }
        let ours = |m: &Mounted| self.device.as_ref().is_none_or(|of| *of == m.device);
        let mounts: Vec<_> = table::parse(&text).into_iter().filter(ours).collect();
        // A mount may have been moved, or be bound to further paths.
        let here = mounts.iter().rfind(|m| m.path == path);
        if let Some(mounted) = here.or_else(|| self.device.as_ref().and(mounts.first())) {
            self.flags = mounted.flags;
            self.device = Some(mounted.device.clone());
        }
    }
}
