//! The ordered transactional key-value trait that the namespace and a store's index stand on,
//! with an embedded engine (`FjallKv`) and an in-memory twin (`MemKv`).
//!
//! The trait is blocking: the embedded engine answers from memory in microseconds, and a distributed
//! engine would run its operations on threads of its own. Scans visit instead of returning
//! iterators, so that no engine's lifetimes leak.
//!
//! Invariants:
//! 1. Transactions are serializable; one that returned `Ok` survives kill −9 of the process.
//! 2. What was committed before [`OrderedKv::sync`] began survives power loss once it returned `Ok`.
//! 3. Keys are ordered by their bytes.

mod batch;
mod copier;
mod copies;
mod engine;
mod error;
mod fault;
mod fjall;
mod group;
mod history;
mod journal;
mod lists;
mod loss;
mod mem;
mod overlay;
mod room;
mod shrink;
mod tables;
mod traits;
mod transact;

pub use copies::{BadFile, EngineFile, Mend};
pub use error::KvError;
pub use fault::passes;
pub use fjall::{FjallKv, FjallOptions, OnLoss};
pub use history::{History, INCARNATIONS_KEPT, Incarnation, Position};
pub use loss::{DECODERS, Decoder};
pub use mem::MemKv;
pub use traits::{Batch, OrderedKv, Reader, Space, Transaction};
pub use transact::{prefix_end, scan_prefix, transact_with};
