//! Bytes to and from `/dev/fuse`: the kernel's structures (`abi`), the descriptor, and the memory
//! that requests are read into. Nothing here interprets a request.

pub(super) mod abi;
mod buffers;
mod descriptor;

pub(super) use buffers::Buffers;
pub(super) use descriptor::{Device, Incoming, Reader};
