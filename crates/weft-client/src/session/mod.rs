//! What this client holds of the metadata service and of the servers, and what it owes them.
//!
//! Owns the attached files, the locks held, the names changed ahead of the service, the attachments
//! that have ended, and the writes that may not survive power loss yet. Each part has its own
//! mutex; none is held across an await.
//!
//! Invariant: what a restarted service forgets can be told again from these parts.

mod attached;
mod detaches;
mod locks;
mod name_table;
mod names_ahead;
mod unsynced;

pub(crate) use attached::AttachedFiles;
pub(crate) use detaches::Detaches;
pub(crate) use locks::{FileLocks, LocksHeld};
pub(crate) use name_table::{Batch, Queued, Table};
pub(crate) use names_ahead::Ahead;
pub use names_ahead::Refused;
pub(crate) use unsynced::{Unsynced, on};
