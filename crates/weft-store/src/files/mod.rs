//! Operations on whole forks and files: checkpoints, truncations, merges, lists.
//!
//! Owns no state. Invariants: each operation takes effect at one moment, as one frame of the log
//! (checkpoints of very many forks: several); what takes long (deferred truncations, merges)
//! follows in bounded steps, each a frame, which readers do not notice. Operations of the metadata
//! service are numbered, so repeating one is safe. Bytes are read and written by `io/`; blocks are
//! freed by `state/`.

mod checkpoint;
mod deferred_truncation;
mod list;
mod merge;
mod note;
mod replica;
mod truncate;

pub use list::ListPage;
pub use replica::StoredFile;
