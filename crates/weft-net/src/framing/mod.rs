//! Frames as they arrive: [`FrameReader`] takes them from a byte stream, checks their checksums and
//! tags, and allocates nothing for a payload before its length was checked and admitted.
//!
//! Owns the bytes of a connection that are received and not yet a frame. Invariant: a frame is
//! handed on only if its checksums, and its tags if frames are protected, are right. Knows no call
//! and no service: the owner admits each header (`FrameReader::admit_by`). Frames to be sent are in
//! `send_queue/`.

mod chunk;
mod frame;
mod reader;

pub use chunk::Chunk;

pub(crate) use frame::{Frame, unexpected};
pub(crate) use reader::FrameReader;
