//! Attaches `/dev/fuse` to a path and detaches it: root by mount(2), other users by the helper
//! `fusermount3`.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::error::{MountAction, MountError};
use super::flags::MountFlags;
use super::helper;
use super::table::FILE_SYSTEM;
use crate::fuse::device::Device;

/// How a volume appears to the kernel.
#[derive(Clone, Debug, Default)]
pub struct Appearance {
    /// Options that the kernel enforces.
    pub flags: MountFlags,
    /// Users other than the mounting one may use it.
    pub others: bool,
    /// The source that the kernel's table shows.
    pub source: OsString,
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Mounts; returns the device that the kernel's requests come from.
pub(in crate::fuse) fn attach(path: &Path, wanted: &Appearance) -> Result<Device, MountError> {
    if is_root() {
        by_system_call(path, wanted)
    } else {
        helper::attach(path, wanted.flags, wanted.others, &wanted.source)
    }
}

fn by_system_call(path: &Path, wanted: &Appearance) -> Result<Device, MountError> {
    let device = Device::open().map_err(MountError::NoDevice)?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.number(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw()
    );
    if wanted.others {
        data.push_str(",allow_other");
    }
    let data = std::ffi::CString::new(data).map_err(io::Error::other)?;
    rustix::mount::mount(
        wanted.source.as_os_str(),
        path,
        FILE_SYSTEM,
        wanted.flags.bits(),
        data.as_c_str(),
    )
    .map_err(|e| MountError::Refused {
        action: MountAction::Mount,
        path: path.to_owned(),
        source: e.into(),
    })?;
    Ok(device)
}

/// Detaches the mount from its path: at once, or with `lazy` when no program uses it any more.
pub fn detach(path: &Path, lazy: bool) -> Result<(), MountError> {
    if !is_root() {
        return helper::detach(path, lazy);
    }
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazy);
    rustix::mount::unmount(path, flags).map_err(|e| match e {
        Errno::BUSY => MountError::Busy(path.to_owned()),
        e => MountError::Refused {
            action: MountAction::Unmount,
            path: path.to_owned(),
            source: e.into(),
        },
    })
}
