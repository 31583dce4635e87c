//! Mounts on this machine: attach and detach a volume, change its mount options, and find and probe
//! the volumes that are mounted.
//!
//! Owns no state but [`LiveFlags`], the last mount options read from the kernel's table of mounts.
//! Invariant: every probe of a mount has a time limit, because a mount may hang. Knows the table of
//! mounts and the helper `fusermount3`; handles no request and does not call the file system.

mod attach;
mod error;
mod flags;
mod helper;
mod live_flags;
mod probe;
mod remount;
mod table;

pub use attach::{Appearance, detach};
pub use error::{MountAction, MountError};
pub use flags::MountFlags;
pub use probe::{Probe, is_dead, look, process_of, stopped_process, told};
pub use remount::remount;
pub use table::{FILE_SYSTEM, Mounted, mounted, mounted_on, mounts_below};

pub(super) use attach::attach;
pub(super) use live_flags::LiveFlags;
