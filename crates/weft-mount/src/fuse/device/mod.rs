//! Bytes to and from `/dev/fuse`: the kernel's structures (`abi`), the descriptor, and the memory
//! that requests are read into.
//!
//! Owns the descriptor and the pool of request buffers. Invariants: a request whose length differs
//! from its header's is an error; a buffer returns to the pool when the last reference to its bytes
//! is dropped. Nothing here interprets a request or knows the file system.

pub(super) mod abi;
mod buffers;
mod descriptor;

pub(super) use buffers::Buffers;
pub(super) use descriptor::{Device, Incoming, Reader};
