//! The ordered transactional key-value trait that the namespace and a store's index stand on,
//! with an embedded engine (`FjallKv`) and an in-memory one for tests (`MemKv`).
//!
//! The trait is blocking: the embedded engine answers from memory in microseconds, and a
//! distributed engine would run its operations on its threads. Scans visit instead of returning
//! iterators, so that no engine's lifetimes leak.
//!
//! Invariants:
//! 1. Transactions are serializable; one that returned `Ok` survives kill −9 of the process.
//! 2. What was committed before [`OrderedKv::sync`] began survives power loss once it returned
//!    `Ok`.
//! 3. Keys are ordered by their bytes.
//!
//! Modules, lowest first: `error`, `limits`; `journal_batch` (reads a batch of fjall's journal) and
//! `files/` (verifies, copies and restores the engine's files), which alone depend on the file
//! format of fjall 3.1; `history` (incarnations, which a store keeps too); `traits` (the trait, its
//! batches and scans); `overlay` and `transact` (transactions over a snapshot); the two engines,
//! `mem` and `engine/`.

mod engine;
mod error;
mod files;
mod history;
mod journal_batch;
mod limits;
mod mem;
mod overlay;
mod traits;
mod transact;

pub use engine::FjallKv;
pub use engine::FjallOptions;
pub use engine::OnLoss;
pub use engine::is_transient;
pub use error::KvError;
pub use files::DECODERS;
pub use files::DamagedFile;
pub use files::Decoder;
pub use files::EngineFile;
pub use files::Remedy;
pub use history::History;
pub use history::Incarnation;
pub use history::Position;
pub use limits::INCARNATIONS_KEPT;
pub use mem::MemKv;
pub use traits::Batch;
pub use traits::OrderedKv;
pub use traits::Reader;
pub use traits::Space;
pub use traits::Transaction;
pub use transact::prefix_end;
pub use transact::scan_prefix;
pub use transact::transact_with;
