//! Changes the options of a mounted volume.

use std::path::Path;

use rustix::io::Errno;

use super::error::{MountAction, MountError};
use super::table;

/// Changes how a volume is mounted, by the words of an option list; other options stay as they are.
pub fn remount(path: &Path, words: &[&str]) -> Result<(), MountError> {
    let refused = |source: Errno| MountError::Refused {
        action: MountAction::Remount,
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
