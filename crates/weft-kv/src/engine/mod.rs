//! The embedded engine: one instance of fjall after another behind [`FjallKv`].
//!
//! Owns the instance, the group commits of the journal, the disk reserve for deletions, and the
//! thread that copies and compacts tables.
//!
//! Invariants:
//! 1. A commit that returned `Ok` is in the journal; one that failed is not, or the engine says
//!    that it may be.
//! 2. After a transient failure (a full disk) the engine is reopened; no reader sees the instance
//!    before it.

mod compactor;
mod copier;
mod disk_reserve;
mod fault;
mod flush;
mod group;
mod instance;
mod journal;
mod kv;
mod options;
mod transient;

pub use kv::FjallKv;
pub use options::{FjallOptions, OnLoss};
pub use transient::is_transient;
