//! What a client keeps of addressed files: names of chunks (CAPFS's H-cache, §3.4.2) and chunks
//! (its D-cache).
//!
//! Owns the names that servers keep coherent ([`SharedNames`], one for each volume), names that
//! only one attachment believes ([`OwnNames`]), and chunks by their names ([`ChunkCache`] in
//! memory, [`DiskCache`] in files), which need no coherence. Each has a mutex, none is held across
//! an await.
//!
//! Invariants:
//! 1. Coherent names are believed only until [`NAMES_VALID`] after the first question for names of
//!    a registration, or the last one for callbacks that was answered, was sent. A server waits
//!    longer than that for a client before it goes on without it.
//! 2. Names that were read before a callback for their file arrived are not kept after it.
//!
//! [`NAMES_VALID`]: crate::limits::NAMES_VALID

mod chunks;
mod disk;
mod names;
mod own;
mod shared;

pub(crate) use chunks::ChunkCache;
pub(crate) use disk::DiskCache;
pub(crate) use names::{Known, Names, WantedChunks};
pub(crate) use own::OwnNames;
pub(crate) use shared::{Fill, Given, SharedNames};
