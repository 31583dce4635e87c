//! Data of views and files in motion: reused buffers, blocking calls on separate threads, and a
//! view read or written as one stream.
//!
//! Invariant: memory is bounded by the number of buffers, whatever the amount of data. Nothing here
//! knows where the other end of a stream lies.

mod blocking;
mod buffers;
mod view;

pub(crate) use blocking::{blocking, panicked};
pub(crate) use buffers::{Buffer, Buffers};
pub(crate) use view::{ZeroedReader, read_out, write_in};
