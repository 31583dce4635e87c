//! Puts `/dev/fuse` under a path: by mount(2) as root, by the helper `fusermount3` for everybody
//! else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::{Errno, FdFlags};
use rustix::mount::UnmountFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use thiserror::Error;

use super::device::Device;
use super::flags::MountFlags;
use super::table::FILE_SYSTEM;

/// The helper that mounts for those who are not root.
const HELPER: &str = "fusermount3";
/// What was tried, in messages.
const MOUNT: &str = "mount";
const UNMOUNT: &str = "unmount";

/// How a volume appears to the kernel.
#[derive(Clone, Debug, Default)]
pub struct Appearance {
    /// What the kernel keeps to by itself.
    pub flags: MountFlags,
    /// Other users than the one who mounts may use it.
    pub others: bool,
    /// What the kernel's table shows as the source.
    pub source: OsString,
}

/// Why a path cannot be mounted on, or unmounted.
#[derive(Debug, Error)]
pub enum MountError {
    /// No FUSE in this kernel, or not for us.
    #[error(
        "cannot open /dev/fuse: {0}; the kernel's module `fuse` is needed (`modprobe fuse`), and in a container the device"
    )]
    NoDevice(#[source] io::Error),
    /// The kernel refuses.
    #[error("cannot {doing} {}: {source}", path.display())]
    Refused {
        /// What was tried: mount on or unmount.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The helper is not installed.
    #[error(
        "only root may {doing} without the helper {HELPER}, and that cannot be run: {source}; install the package fuse3, or \
         {doing} as root"
    )]
    NoHelper {
        /// What it was needed for: mount or unmount.
        doing: &'static str,
        /// Why it cannot be run.
        source: io::Error,
    },
    /// The helper failed.
    #[error("cannot {doing} {}: {HELPER} says: {words}", path.display())]
    Helper {
        /// What it was asked for: mount or unmount.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What it said.
        words: String,
    },
    /// It cannot become read-only.
    #[error(
        "files on {} are open for writing, or were removed while they are open: it cannot become read-only before they are closed",
        .0.display()
    )]
    Written(PathBuf),
    /// Somebody uses it.
    #[error("{} is in use", .0.display())]
    Busy(PathBuf),
    /// The kernel speaks another protocol.
    #[error(
        "the kernel's FUSE is version {major}.{minor}; 7.31 (Linux 5.4) is the oldest that is served"
    )]
    Version {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The device failed after it was mounted.
    #[error("talking to the kernel failed: {0}")]
    Device(#[from] io::Error),
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Mounts; the device is where the kernel's requests come from.
pub(super) fn attach(path: &Path, wanted: &Appearance) -> Result<Device, MountError> {
    if is_root() {
        by_system_call(path, wanted)
    } else {
        by_helper(path, wanted)
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
        doing: "mount on",
        path: path.to_owned(),
        source: e.into(),
    })?;
    Ok(device)
}

/// The helper opens the device, mounts, and sends the descriptor over a socket.
fn by_helper(path: &Path, wanted: &Appearance) -> Result<Device, MountError> {
    let device = |e: Errno| MountError::Device(e.into());
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(device)?;
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty()).map_err(device)?;
    let mut options = OsString::from("subtype=weft,default_permissions,fsname=");
    // The helper's list is cut at commas.
    options.push(OsStr::from_bytes(&without_commas(wanted.source.as_bytes())));
    let others = wanted.others.then_some("allow_other");
    for word in wanted.flags.words().chain(others) {
        options.push(",");
        options.push(word);
    }
    let child = Command::new(HELPER)
        .arg("-o")
        .arg(&options)
        .arg("--")
        .arg(path)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| no_helper(MOUNT, e))?;
    drop(theirs);
    let descriptor = receive_descriptor(&ours);
    let output = child.wait_with_output()?;
    match descriptor.map_err(device)? {
        Some(descriptor) if output.status.success() => {
            rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC).map_err(device)?;
            Ok(Device::from_file(File::from(descriptor)))
        }
        _ => Err(helper_failed(MOUNT, path, &output.stderr)),
    }
}

fn without_commas(text: &[u8]) -> Vec<u8> {
    text.iter()
        .map(|b| if *b == b',' { b'_' } else { *b })
        .collect()
}

fn receive_descriptor(socket: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut slices = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut received = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            received = descriptors.last().or(received);
        }
    }
    Ok(received)
}

fn no_helper(doing: &'static str, source: io::Error) -> MountError {
    MountError::NoHelper { doing, source }
}

fn helper_failed(doing: &'static str, path: &Path, words: &[u8]) -> MountError {
    let words = String::from_utf8_lossy(words);
    let words = words
        .trim()
        .trim_start_matches(HELPER)
        .trim_start_matches(": ");
    if words.contains("busy") {
        return MountError::Busy(path.to_owned());
    }
    let hint = if words.contains("/dev/fuse") {
        " (let everybody use the device, as most systems do: `chmod 666 /dev/fuse` as root)"
    } else {
        ""
    };
    MountError::Helper {
        doing,
        path: path.to_owned(),
        words: format!("{words}{hint}"),
    }
}

/// Takes the mount away from its path: at once, or with `lazy` as soon as nobody uses it any more.
pub fn detach(path: &Path, lazy: bool) -> Result<(), MountError> {
    if !is_root() {
        let mut command = Command::new(HELPER);
        command.arg("-u");
        if lazy {
            command.arg("-z");
        }
        let output = command
            .arg("--")
            .arg(path)
            .output()
            .map_err(|e| no_helper(UNMOUNT, e))?;
        if output.status.success() {
            return Ok(());
        }
        return Err(helper_failed(UNMOUNT, path, &output.stderr));
    }
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazy);
    rustix::mount::unmount(path, flags).map_err(|e| match e {
        Errno::BUSY => MountError::Busy(path.to_owned()),
        e => MountError::Refused {
            doing: UNMOUNT,
            path: path.to_owned(),
            source: e.into(),
        },
    })
}
