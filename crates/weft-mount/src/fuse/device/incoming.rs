//! A request as it came from the kernel.

use bytes::Bytes;
use zerocopy::FromBytes;

use super::abi::{InHeader, WriteIn};

/// A request: its header and the bytes behind it.
#[derive(Debug)]
pub(in crate::fuse) struct Incoming {
    pub(in crate::fuse) header: InHeader,
    /// Everything behind the header; for a WRITE only its fixed part.
    pub(in crate::fuse) body: Vec<u8>,
    /// The data of a WRITE.
    pub(in crate::fuse) data: Bytes,
}

impl Incoming {
    /// The fixed part of the body, and the bytes behind it.
    pub(in crate::fuse) fn argument<T: FromBytes>(&self) -> Option<(T, &[u8])> {
        T::read_from_prefix(&self.body).ok()
    }

    /// The fixed part of a WRITE, if its length matches the data.
    pub(in crate::fuse) fn write(&self) -> Option<WriteIn> {
        let (argument, _) = self.argument::<WriteIn>()?;
        (argument.size as usize == self.data.len()).then_some(argument)
    }
}
