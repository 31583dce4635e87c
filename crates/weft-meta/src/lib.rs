//! The namespace of a volume over an ordered transactional key-value engine.
//!
//! Every operation is one atomic transaction and has its own file under `ops/`. It takes the
//! request of the wire, checks permissions and returns the reply. The caller supplies the time,
//! carries out intents on the I/O servers and syncs the engine. `docs/design/0004-metadata.md` has
//! the key layout and says what each crash leaves behind.
//!
//! Modules, from the top down; a file imports only from modules below its own:
//! - `namespace/`: the public handle; it passes calls on.
//! - `check/`, `ops/`: functions over one transaction each.
//! - `tx/`: the transaction, and how it reaches the engine.
//! - `state/`: all state in memory, composed of the tables that the next modules own.
//! - `quota/`, `intents/`, `leases/`, `open/`, `servers/`, `locks/`: those tables.
//! - `paths/`, `checkpoints/`, `access/`, `records/`: reads and records, without state.
//!
//! Invariants:
//! 1. Every entry names an inode that is there; every inode has an entry, is the root, or is an
//!    orphan; no file's servers hold cells of a file that has neither inode nor delete intent.
//! 2. `links` counts names (directories: 2 + directories inside); a directory's `size` counts
//!    entries.
//! 3. Ids and intent numbers ascend and are never reused.
//! 4. `size_exact` is false in the engine before the attach of a writer is answered.
//! 5. Lock order: the engine's writer, then the open files.
//!
//! Deliberately absent: I/O of its own, timers, threads, the network. Operations do not sync: their
//! caller does, before it replies. Exceptions, which sync the engine: format, open and close, the
//! start of an incarnation, and a heartbeat that changes a server's record.

mod access;
mod check;
mod checkpoints;
mod error;
mod intents;
mod leases;
mod limits;
mod locks;
mod namespace;
mod open;
mod ops;
mod paths;
mod quota;
mod records;
mod servers;
mod state;
mod tx;

pub use check::{CheckObserver, index_finding};
pub use error::MetaError;
pub use intents::{CheckpointTask, Intent, TreeFile};
pub use leases::{ChangeLog, Delegations, Invalidations, Leases};
pub use limits::HARD_LINKS_MAX;
pub use locks::{AcquireOutcome, Family, Granted, Lock, LockOwner, LockTable, OnConflict, Span};
pub use namespace::{Counts, Namespace, VolumeSettings, mutates};
pub use ops::{
    Append, Attached, CheckpointFiles, IntentPage, Spill, SpillEnd, Truncation, UnsettledFile,
};
pub use quota::{GrowingFile, GrowingFiles, Payer, Used};
pub use records::record;
pub use tx::SERVICE;
