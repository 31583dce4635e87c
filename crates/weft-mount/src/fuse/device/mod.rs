//! Bytes to and from the kernel: its structures (`abi`), `/dev/fuse` (`descriptor`) and FUSE over
//! io_uring (`ring/`), the memory that requests are read into, and the answer that goes back.
//!
//! Owns the descriptors, the rings and the pool of request buffers. Invariants: a request whose
//! length differs from its header's is an error; each request is answered once, on the way that it
//! came; a buffer returns to the pool when the last reference to its bytes is dropped. Nothing here
//! interprets a request or knows the file system.

pub(super) mod abi;
mod answer;
mod buffers;
mod descriptor;
mod incoming;
mod ring;

pub(super) use answer::Answer;
pub(super) use buffers::Buffers;
pub(super) use descriptor::{Device, Reader};
pub(super) use incoming::Incoming;
pub(super) use ring::{PARAMETER, Rings, SlotAnswer, is_offered};
