//! Files and forks: names, lengths, chunk sizes, and which fork derives from which.
//!
//! Owns the table of all files and forks, and the arithmetic of chunks and blocks.
//!
//! Invariants:
//! 1. A name names one fork; a fork that lost its name is *kept*, for a checkpoint or a child.
//! 2. A fork's parent is there as long as the fork is, and knows how many children it has.
//! 3. A fork with a tail is among those with tails.

mod fork;
mod geometry;
mod lineage;
mod table;

pub(crate) use fork::{Checkpoint, File, Fork};
pub(crate) use geometry::{
    ChunkRange, by_chunk, edge, edges, numbers, up_to, whole_blocks, within,
};
pub(crate) use table::Forks;
