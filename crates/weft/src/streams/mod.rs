//! Streaming I/O: reused buffers, blocking calls on separate threads, and a view read or written as
//! one stream.
//!
//! Invariant: memory is bounded by the number of buffers, whatever the amount of data. The other
//! end of a stream is any `Read` or `Write`; only error messages assume standard input or output.

mod blocking;
mod buffers;
mod view;

pub(crate) use blocking::{blocking, panicked};
pub(crate) use buffers::{Buffer, Buffers};
pub(crate) use view::{ZeroedReader, read_out, write_in};
