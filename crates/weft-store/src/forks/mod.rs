//! Files and forks: names, lengths, chunk sizes, and which fork derives from which.
//!
//! Owns the table of all files and forks ([`Forks`]), with the chunks in memory, and the arithmetic
//! of chunks and blocks. It knows of no allocator: methods return the places that a change frees,
//! and `state` frees them. Only `state` borrows [`Forks`] mutably.
//!
//! Invariants:
//! 1. A name has one live fork; a fork that lost its name is a *checkpoint fork*, and stays for its
//!    checkpoint or a child.
//! 2. A fork's parent exists as long as the fork, and counts its children.
//! 3. A fork with a deferred truncation is in the set of those.

mod fork;
mod geometry;
mod lineage;
mod table;

pub(crate) use fork::{Checkpoint, File, Fork};
pub(crate) use geometry::{
    ChunkRange, by_chunk, edge, edges, numbers, up_to, whole_blocks, within,
};
pub(crate) use table::Forks;
