//! Frames as they arrive: [`FrameReader`] takes them from a byte stream, checks their checksums and
//! tags, and allocates nothing for a payload before its length was checked and admitted.

mod chunk;
mod frame;
mod reader;

pub use chunk::Chunk;

pub(crate) use frame::{Frame, unexpected};
pub(crate) use reader::FrameReader;
