//! Files and forks: names, lengths, chunk sizes, and which fork derives from which.
//!
//! Owns the structures of one file and one fork, and the arithmetic of chunks and blocks.

mod fork;
mod geometry;
pub(crate) use fork::Checkpoint;

pub(crate) use fork::{File, Fork};
pub(crate) use geometry::{
    ChunkRange, by_chunk, edge, edges, numbers, up_to, whole_blocks, within,
};
