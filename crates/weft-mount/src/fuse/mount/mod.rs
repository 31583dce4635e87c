//! Mounts on this machine: attach and detach a volume, change its mount options, and find and probe
//! the volumes that are mounted. Knows the kernel's table of mounts, no request.

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
