//! The result of a request, and how its arguments are taken apart.

use bytes::Bytes;
use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::fs::FsError;
use crate::fuse::device::Incoming;

/// The bytes of a reply behind its header.
#[derive(Debug)]
pub(in crate::fuse) enum Reply {
    /// None: the request succeeded.
    Done,
    /// One or more structures.
    Packed(Vec<u8>),
    /// Plain bytes.
    Data(Bytes),
    /// File data, in the buffers in which it arrived.
    Buffers(Vec<Bytes>),
}

impl Reply {
    pub(super) fn of(structure: &(impl IntoBytes + Immutable)) -> Reply {
        Reply::Packed(structure.as_bytes().to_vec())
    }

    /// The bytes, in order.
    pub(in crate::fuse) fn slices(&self) -> Vec<&[u8]> {
        match self {
            Reply::Done => Vec::new(),
            Reply::Packed(bytes) => vec![bytes],
            Reply::Data(bytes) => vec![bytes],
            Reply::Buffers(buffers) => buffers.iter().map(|buffer| &buffer[..]).collect(),
        }
    }
}

/// What a request comes to.
pub(super) type Result<T = Reply> = std::result::Result<T, FsError>;

/// A request that ends before its arguments do.
pub(super) fn malformed() -> FsError {
    FsError::refused("the kernel's request is too short", Errno::INVAL)
}

/// The fixed argument of a request, and the bytes behind it.
pub(super) fn argument<T: FromBytes>(request: &Incoming) -> Result<(T, &[u8])> {
    request.argument().ok_or_else(malformed)
}

/// A zero-terminated string, and the bytes behind it.
pub(super) fn string(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let end = bytes.iter().position(|b| *b == 0).ok_or_else(malformed)?;
    Ok((&bytes[..end], &bytes[end + 1..]))
}

/// A reply without a body.
pub(super) fn done(result: Result<()>) -> Result {
    result.map(|()| Reply::Done)
}
