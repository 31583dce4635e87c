//! Repairs: one transaction each, which first checks whether the finding still holds.
//!
//! `dispatch.rs` names the repair of each fault; the other files have the repairs by subject.
//!
//! Invariant: a repair never discards what may be a user's data. A file without a name goes to
//! `/lost+found`, and an unreadable record to an extended attribute.

mod adopt;
mod checkpoints;
mod counters;
mod dispatch;
mod inodes;
mod lost_found;
mod names;
mod outcome;
mod records;
mod removed;
mod scans;
mod set;
mod sizes;

pub(crate) use adopt::adopt_file;
pub(crate) use dispatch::repair;
