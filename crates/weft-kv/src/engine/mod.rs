//! The embedded engine: one opening of fjall after another behind [`FjallKv`].
//!
//! Owns the opening, the journal's group commits, the space kept for making the engine smaller, and
//! the thread that copies its tables.
//!
//! Invariants:
//! 1. A commit that returned `Ok` is in the journal; one that failed is not, or the engine says
//!    that it may be.
//! 2. A failure that passes (a full disk) is followed by a new opening; no reader sees the one
//!    before it.

mod copier;
mod fault;
mod flush;
mod group;
mod journal;
mod kv;
mod opening;
mod options;
pub(crate) mod room;
mod shrink;

pub use fault::is_transient;
pub use kv::FjallKv;
pub use options::{FjallOptions, OnLoss};
