//! The setuid helper `fusermount3`, which mounts and unmounts for users other than root.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::{Errno, FdFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

use super::error::{HELPER, MountAction, MountError};
use super::flags::MountFlags;
use crate::fuse::device::Device;

/// Mounts. The helper opens the device, mounts it, and sends the descriptor over a socket.
pub(super) fn attach(
    path: &Path,
    flags: MountFlags,
    others: bool,
    source: &OsStr,
) -> Result<Device, MountError> {
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
    // The helper splits its list at commas.
    options.push(OsStr::from_bytes(&without_commas(source.as_bytes())));
    let others = others.then_some("allow_other");
    for word in flags.words().chain(others) {
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
        .map_err(|e| missing(MountAction::Mount, e))?;
    drop(theirs);
    let descriptor = receive_descriptor(&ours);
    let output = child.wait_with_output()?;
    match descriptor.map_err(device)? {
        Some(descriptor) if output.status.success() => {
            rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC).map_err(device)?;
            Ok(Device::from_file(File::from(descriptor)))
        }
        _ => Err(failed(MountAction::Mount, path, &output.stderr)),
    }
}

/// Unmounts: at once, or with `lazy` when no program uses the mount any more.
pub(super) fn detach(path: &Path, lazy: bool) -> Result<(), MountError> {
    let mut command = Command::new(HELPER);
    command.arg("-u");
    if lazy {
        command.arg("-z");
    }
    let output = command
        .arg("--")
        .arg(path)
        .output()
        .map_err(|e| missing(MountAction::Unmount, e))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(MountAction::Unmount, path, &output.stderr))
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

fn missing(action: MountAction, source: io::Error) -> MountError {
    MountError::NoHelper { action, source }
}

fn failed(action: MountAction, path: &Path, stderr: &[u8]) -> MountError {
    let message = String::from_utf8_lossy(stderr);
    let message = message
        .trim()
        .trim_start_matches(HELPER)
        .trim_start_matches(": ");
    if message.contains("busy") {
        return MountError::Busy(path.to_owned());
    }
    let hint = if message.contains("/dev/fuse") {
        " (let all users open the device, as most systems do: `chmod 666 /dev/fuse` as root)"
    } else {
        ""
    };
    MountError::Helper {
        action,
        path: path.to_owned(),
        message: format!("{message}{hint}"),
    }
}
