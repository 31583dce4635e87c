//! The disk of an I/O server: chunks, cells and forks, log and recovery.
//!
//! A [`Store`] holds forks of cells of files: sparse byte sequences of up to 2⁶³ − 1 bytes. Large
//! data goes by direct I/O to free blocks and then into the map; small data goes into the log and
//! is flushed behind. `docs/design/0003-store.md` says why, `docs/format.md` what lies on the disk.
//!
//! Promises, each with the tests that hold it:
//! 1. An acknowledged write survives the death of the process
//!    (`a_crash_at_every_storage_operation_leaves_an_allowed_state`).
//! 2. What was acknowledged before a [`Store::sync`] began survives power loss once it returned
//!    (`what_a_sync_answered_for_survives_power_loss`).
//! 3. After power loss the store holds a prefix of the acknowledged batches, never less than what
//!    was synced (`crashes_of_many_lives_leave_allowed_states`).
//! 4. Bytes that do not match their checksum are never returned
//!    (`a_wrong_block_is_a_typed_error_and_never_wrong_bytes`).
//!
//! Deliberately absent: redundancy between the disks of a store; that is for layouts to give.

mod addressed;
mod admit;
mod ahead;
mod alloc;
mod apply;
mod check;
mod checkpoint;
mod chunk;
mod clear;
mod config;
mod count;
mod counters;
mod cut;
mod decoders;
mod direct;
mod disk;
mod doubt;
mod entries;
mod error;
mod evict;
mod flight;
mod flush;
mod folder;
mod frames;
mod give_up;
mod incarnation;
mod index_room;
mod key;
mod list;
mod load;
mod locked;
mod log;
mod losses;
mod merge;
mod note;
mod part;
mod pool;
mod proof;
mod put;
mod queued;
mod read;
mod record;
mod recover;
mod relabel;
mod removal;
mod replay;
mod rescue;
mod restore;
mod runs;
mod salvage;
mod scrub;
pub mod sim;
mod space;
mod state;
mod storage;
mod store;
mod sync;
mod tail;
mod touched;
mod trace;
mod tree;
mod trim;
mod unproven;
mod write;

pub use addressed::{ADDRESSED, ChunkName};
pub use check::{CheckPass, Checked};
pub use config::{CacheRules, DiskConfig, INDEX_MEMTABLE, StoreConfig};
pub use counters::CounterSnapshot;
pub use decoders::{DECODERS, Decoder, item_kinds};
pub use disk::{DISKS_MAX, DiskState, DiskStatus};
pub use error::StoreError;
pub use folder::{DeviceStorage, FolderStorage, Reach};
pub use key::{
    CHUNK_MAX, CHUNK_MIN, ForkKey, ForkName, ForkNameError, ForkStatus, Run, Scattered, Timestamp,
    Usage, Write,
};
pub use list::Page;
pub use losses::Losses;
pub use part::Part;
pub use pool::{BLOCK, BUFFER_BLOCKS_MAX, Buffer, Landing, Pool, Slice};
pub use read::READ_TRIES;
pub use record::INDEX_SPACES;
pub use recover::{has_log, log_reaches};
pub use rescue::{Obstacle, rescue};
pub use runs::DataRuns;
pub use scrub::{Fault, Finding, ScrubPosition, Scrubbed};
pub use sim::SimStorage;
pub use storage::{BoxFuture, FileKind, Storage, StorageFile, Work};
pub use store::Store;
pub use trim::Trimmed;
