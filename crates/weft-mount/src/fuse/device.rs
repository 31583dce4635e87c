//! One file descriptor of `/dev/fuse`: requests come out of it, replies and notifications go into
//! it.

#![allow(
    unsafe_code,
    reason = "an ioctl of /dev/fuse that no library wraps: a further descriptor of the same mount"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;

use bytes::Bytes;
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::abi::{InHeader, OutHeader, WRITE_HEAD, WriteIn, opcode};
use super::buffers::{Buffer, Buffers};

/// Data of a write that is shorter, or fills less than half of its buffer, is copied: a write keeps
/// at most twice its size.
const HANDED_ON: usize = 512 << 10;

/// A descriptor of the mount. Replies go through the one that the request came from.
#[derive(Debug)]
pub(super) struct Device(File);

/// A request: its header and what follows.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) header: InHeader,
    /// Everything behind the header; of a WRITE only its fixed part.
    pub(super) body: Vec<u8>,
    /// The data of a WRITE.
    pub(super) data: Bytes,
}

/// Where one thread reads requests into.
pub(super) struct Reader {
    buffers: Buffers,
    buffer: Option<Buffer>,
}

impl Reader {
    pub(super) fn new(buffers: &Buffers) -> Reader {
        Reader {
            buffers: buffers.clone(),
            buffer: None,
        }
    }
}

impl Device {
    pub(super) const PATH: &'static str = "/dev/fuse";

    pub(super) fn open() -> io::Result<Device> {
        let file = OpenOptions::new().read(true).write(true).open(Self::PATH)?;
        if !file.metadata()?.file_type().is_char_device() {
            return Err(io::Error::other("it is no device"));
        }
        Ok(Device(file))
    }

    pub(super) fn from_file(file: File) -> Device {
        Device(file)
    }

    pub(super) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// A further descriptor of the same mount, with a queue of its own.
    pub(super) fn further(&self) -> io::Result<Device> {
        use rustix::ioctl::{Setter, ioctl, opcode};
        /// `FUSE_DEV_IOC_CLONE`, whose direction is the other way round in the kernel's own header.
        const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);
        let further = Device::open()?;
        let own = self.number().cast_unsigned();
        // SAFETY: the kernel reads one u32, the number of a descriptor that is open as long as
        // `self`.
        unsafe { ioctl(further.0.as_fd(), Setter::<CLONE, u32>::new(own))? };
        Ok(further)
    }

    /// The next request; `None` when the mount has ended.
    ///
    /// # Errors
    /// The device failed, or the kernel sent what is no request.
    pub(super) fn receive(&self, reader: &mut Reader) -> io::Result<Option<Incoming>> {
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
            let (header, _) = InHeader::read_from_prefix(&head)
                .map_err(|_| io::Error::other("shorter than a header"))?;
            if length < size_of::<InHeader>() || header.len as usize != length {
                return Err(io::Error::other(format!(
                    "a request of {} bytes came with {length}",
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
            } else if rest < HANDED_ON.max(buffer.length() / 2) {
                let data = Bytes::copy_from_slice(buffer.get(rest));
                reader.buffer = Some(buffer);
                data
            } else {
                buffer.freeze(rest)
            };
            return Ok(Some(Incoming { header, body, data }));
        }
    }

    /// Answers a request.
    pub(super) fn reply(&self, unique: u64, parts: &[&[u8]]) {
        self.send(unique, 0, parts);
    }

    /// Answers a request with an errno.
    pub(super) fn refuse(&self, unique: u64, errno: i32) {
        self.send(unique, -errno, &[]);
    }

    fn send(&self, unique: u64, error: i32, parts: &[&[u8]]) {
        match self.write(unique, error, parts) {
            // The request was interrupted and nobody waits for it, or the mount has ended.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(e) => tracing::warn!(unique, error = %e, "a reply to the kernel was not taken"),
        }
    }

    /// Tells the kernel something unasked.
    pub(super) fn notify(&self, code: i32, parts: &[&[u8]]) -> Result<(), Errno> {
        self.write(0, code, parts)
    }

    fn write(&self, unique: u64, error: i32, parts: &[&[u8]]) -> Result<(), Errno> {
        let length = size_of::<OutHeader>() + parts.iter().map(|p| p.len()).sum::<usize>();
        let header = OutHeader {
            len: u32::try_from(length).map_err(|_| Errno::OVERFLOW)?,
            error,
            unique,
        };
        let mut slices = Vec::with_capacity(parts.len() + 1);
        slices.push(IoSlice::new(header.as_bytes()));
        slices.extend(parts.iter().map(|part| IoSlice::new(part)));
        rustix::io::writev(&self.0, &slices).map(|_| ())
    }
}

impl Incoming {
    /// The fixed part of the body, and what follows.
    pub(super) fn argument<T: FromBytes>(&self) -> Option<(T, &[u8])> {
        T::read_from_prefix(&self.body).ok()
    }

    /// The fixed part of a WRITE, if its length is true.
    pub(super) fn write(&self) -> Option<WriteIn> {
        let (argument, _) = self.argument::<WriteIn>()?;
        (argument.size as usize == self.data.len()).then_some(argument)
    }
}
