//! The state of this client's session: what it holds, and what it has not reported yet.
//!
//! Owns the attached files, the locks, the delegated directories with their unreported changes, the
//! attachments and operations that have ended, and the writes that may not survive power loss yet.
//! Each of these has its mutex; none is held across an await.
//!
//! Invariant: what a restarted service forgets can be asserted again from these.

mod attached;
mod delegated_names;
mod delegation_table;
mod detaches;
mod ended;
mod locks;
mod made_files;
mod naming_pays;
mod unsynced;
mod worth;

pub(crate) use attached::AttachedFiles;
pub(crate) use delegated_names::DelegatedNames;
pub use delegated_names::Refused;
pub(crate) use delegation_table::{ChangeBatch, ChangeProgress, DelegationTable, Due};
pub(crate) use detaches::DetachQueue;
pub(crate) use ended::{EndedOperations, TakenAlong};
pub(crate) use locks::{FileLocks, LocksHeld};
pub(crate) use naming_pays::{Naming, NamingPays};
pub(crate) use unsynced::{Unsynced, on};
