//! One file descriptor of `/dev/fuse`: requests are read from it, replies and notifications are
//! written to it.

#![allow(
    unsafe_code,
    reason = "an ioctl of /dev/fuse that no library wraps: another descriptor of the same mount"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;

use bytes::Bytes;
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::abi::{InHeader, OutHeader, WRITE_HEAD, opcode};
use super::buffers::{Buffer, Buffers};
use super::incoming::Incoming;
use crate::limits::ZERO_COPY_WRITE_MIN;

/// A descriptor of the mount. A reply goes through the descriptor that its request came from.
#[derive(Debug)]
pub(in crate::fuse) struct Device(File);

/// The buffer that one thread reads requests into.
pub(in crate::fuse) struct Reader {
    buffers: Buffers,
    buffer: Option<Buffer>,
}

impl Reader {
    pub(in crate::fuse) fn new(buffers: &Buffers) -> Reader {
        Reader {
            buffers: buffers.clone(),
            buffer: None,
        }
    }
}

impl Device {
    pub(in crate::fuse) const PATH: &'static str = "/dev/fuse";

    pub(in crate::fuse) fn open() -> io::Result<Device> {
        let file = OpenOptions::new().read(true).write(true).open(Self::PATH)?;
        if !file.metadata()?.file_type().is_char_device() {
            return Err(io::Error::other("it is not a character device"));
        }
        Ok(Device(file))
    }

    pub(in crate::fuse) fn from_file(file: File) -> Device {
        Device(file)
    }

    pub(in crate::fuse) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Another descriptor of the same mount, with a separate queue.
    pub(in crate::fuse) fn duplicate(&self) -> io::Result<Device> {
        use rustix::ioctl::{Setter, ioctl, opcode};
        /// `FUSE_DEV_IOC_CLONE`; the kernel's header has its direction reversed.
        const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);
        let duplicate = Device::open()?;
        let source = self.number().cast_unsigned();
        // SAFETY: the kernel reads one u32, the number of a descriptor that stays
        // open as long as `self`.
        unsafe { ioctl(duplicate.0.as_fd(), Setter::<CLONE, u32>::new(source))? };
        Ok(duplicate)
    }

    /// The next request; `None` when the mount has ended.
    ///
    /// # Errors
    /// The device failed, or the kernel sent a malformed request.
    pub(in crate::fuse) fn receive(&self, reader: &mut Reader) -> io::Result<Option<Incoming>> {
        loop {
            let mut buffer = reader
                .buffer
                .take()
                .unwrap_or_else(|| reader.buffers.take());
            let mut head = [0; WRITE_HEAD];
            let mut slices = [IoSliceMut::new(&mut head), IoSliceMut::new(buffer.as_mut())];
            let length = match rustix::io::readv(&self.0, &mut slices) {
                Ok(length) => length,
                // The request was interrupted before it was read.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {
                    reader.buffer = Some(buffer);
                    continue;
                }
                Err(Errno::NODEV) => return Ok(None),
                Err(e) => return Err(e.into()),
            };
            let (header, _) = InHeader::read_from_prefix(&head).map_err(|_| {
                io::Error::other("the kernel sent a request shorter than its header")
            })?;
            if length < size_of::<InHeader>() || header.len as usize != length {
                return Err(io::Error::other(format!(
                    "the kernel sent {length} bytes of a request of {}",
                    header.len
                )));
            }
            let in_head = length.min(WRITE_HEAD);
            let mut body = head[size_of::<InHeader>()..in_head].to_vec();
            let rest = length - in_head;
            let data = if header.opcode != opcode::WRITE {
                body.extend_from_slice(buffer.get(rest));
                reader.buffer = Some(buffer);
                Bytes::new()
            } else if rest < ZERO_COPY_WRITE_MIN.max(buffer.length() / 2) {
                let data = Bytes::copy_from_slice(buffer.get(rest));
                reader.buffer = Some(buffer);
                data
            } else {
                buffer.freeze(rest)
            };
            return Ok(Some(Incoming { header, body, data }));
        }
    }

    /// Answers a request; `error` is a negative errno, or 0.
    pub(super) fn answer(&self, unique: u64, error: i32, body: &[&[u8]]) {
        match self.write(unique, error, body) {
            // The request was interrupted and no program waits for it, or the mount has ended.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(e) => tracing::warn!(unique, error = %e, "the kernel rejected a reply"),
        }
    }

    /// Sends the kernel a notification.
    pub(in crate::fuse) fn notify(&self, code: i32, body: &[&[u8]]) -> Result<(), Errno> {
        self.write(0, code, body)
    }

    fn write(&self, unique: u64, error: i32, body: &[&[u8]]) -> Result<(), Errno> {
        let header = OutHeader::of(unique, error, body).ok_or(Errno::OVERFLOW)?;
        let mut slices = Vec::with_capacity(body.len() + 1);
        slices.push(IoSlice::new(header.as_bytes()));
        slices.extend(body.iter().map(|bytes| IoSlice::new(bytes)));
        rustix::io::writev(&self.0, &slices).map(|_| ())
    }
}
