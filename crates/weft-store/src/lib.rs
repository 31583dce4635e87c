//! The disk of an I/O server: chunks, cells and forks, log and recovery.
//!
//! A [`Store`] holds forks of cells of files: sparse byte sequences of up to 2⁶³ − 1 bytes. Large
//! data goes by direct I/O to free blocks and then into the map; small data goes into the log and
//! is flushed later. `docs/design/0003-store.md` gives the reasons, `docs/format.md` the bytes on
//! disk.
//!
//! Promises, each with the tests that hold it:
//! 1. An acknowledged write survives the death of the process
//!    (`a_crash_at_every_storage_operation_leaves_an_allowed_state`).
//! 2. What was acknowledged before a [`Store::sync`] began survives power loss once it returned
//!    (`writes_covered_by_an_acknowledged_sync_survive_power_loss`).
//! 3. After power loss the store holds a prefix of the acknowledged batches, never less than what
//!    was synced (`repeated_crashes_leave_allowed_states`).
//! 4. Bytes that do not match their checksum are never returned
//!    (`a_damaged_block_gives_a_typed_error_and_never_wrong_bytes`).
//!
//! Modules, lowest first. A module imports only from modules in its row or above; `./check` rejects
//! import cycles, and `scripts/imports.py weft-store` prints the exact order. Each `mod.rs` says
//! what its module owns, and most say which invariants hold there.
//!
//! | module | owns |
//! | --- | --- |
//! | `key`, `error`, `counters`, `finding`, `limits`, `signals` | the vocabulary of all modules; wake-ups of the background task |
//! | `pool`, `storage`, `record`, `config` | aligned memory; the seam to files and devices; durable bytes; what a caller configures |
//! | `log`, `space`, `disk` | segment files and the queue of frames; free blocks; the numbers and states of disks |
//! | `pages`, `forks`, `cache` | chunks in memory and their pages; names, lengths and derivation; eviction, dirty chunks, access history |
//! | `doubt`, `index` | unproven bytes; the differences from the index |
//! | `state` | the components above under one lock, and the rules that involve several of them |
//! | `engine` | the open store: the state, its locks and bounds, admission |
//! | `paging`, `provision`, `commit`, `io`, `files` | nothing: operations on the engine |
//! | `addressed`, `calls` | nothing: addressed forks over plain ones; the calls that serve both |
//! | `upkeep`, `recovery` | nothing: scrub, check and repair; opening and recovery |
//!
//! Deliberately absent: redundancy between the disks of a store. It is not implemented in layouts
//! either: what was on a lost disk is lost.

mod addressed;
mod cache;
mod calls;
mod commit;
mod config;
mod counters;
mod decoders;
mod disk;
mod doubt;
mod engine;
mod error;
mod files;
mod finding;
mod forks;
mod index;
mod io;
mod key;
mod limits;
mod log;
mod pages;
mod paging;
mod pool;
mod provision;
mod record;
mod recovery;
mod signals;
mod space;
mod state;
mod storage;
mod upkeep;

pub use addressed::{Cleaned, FoundNames, MissingChunk, NamedChunks, NamedOutcome, PreparedWrite};
pub use config::{CacheRules, DiskConfig, INDEX_MEMTABLE, StoreConfig};
pub use counters::CounterSnapshot;
pub use decoders::{DECODERS, Decoder, item_kinds};
pub use disk::{DISKS_MAX, DiskState, DiskStatus};
pub use engine::{HeldChunks, Store};
pub use error::StoreError;
pub use files::{ListPage, StoredFile};
pub use finding::{Fault, Finding};
pub use io::{DataRuns, DiskWait, READ_ATTEMPTS, ReadSlice};
pub use key::{
    ADDRESSED, CHUNK_MAX, CHUNK_MIN, ChunkName, ForkKey, ForkName, ForkNameError, ForkStatus,
    ORDER_STATE, Run, Scattered, Timestamp, Usage, Write,
};
pub use pool::{BLOCK, BUFFER_BLOCKS_MAX, Buffer, Pool, ReceiveBuffer, Slice};
pub use provision::Trimmed;
pub use record::INDEX_SPACES;
pub use recovery::{OpenBlocker, RepairMode, has_log, log_reaches, repair_closed};
pub use storage::sim::{self, SimStorage};
pub use storage::{
    BlockingTask, BoxFuture, DeviceStorage, FileKind, FolderStorage, IoBackend, Storage,
    StorageFile, together,
};
pub use upkeep::{CheckOptions, CheckPass, Checked, Losses, Restored, ScrubPosition, Scrubbed};
