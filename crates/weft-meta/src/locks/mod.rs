//! The lock table: which owner holds which lock, and which requests wait. A pure data structure: no
//! time, no threads, no messages.
//!
//! Two families do not see each other, as on Linux: whole-file locks (`flock`) and locks on ranges
//! of bytes (`fcntl`), which split and merge. An owner is a client and a number that it chose. A
//! request that must wait gets a ticket; a release returns the tickets that it grants, in arrival
//! order. A new request is granted whenever no *held* lock excludes it, even before waiting
//! requests (as on Linux; otherwise an owner that asks for one more range would wait for requests
//! that wait for it).
//!
//! Invariants:
//! 1. Of two locks of one family that overlap and belong to different owners, none is exclusive.
//! 2. A waiting request is excluded by a held lock.
//! 3. A request for a range that would close a cycle does not wait. (Owners of whole files may wait
//!    in a cycle: Linux does not check either.)
//!
//! Deliberately absent: permissions, which the kernel or the server's front end checks; and
//! fairness beyond the above.

mod lock;
mod ranges;
mod table;

pub use lock::{Family, Lock, LockOwner, Span};
pub use table::{AcquireOutcome, Granted, LockTable, OnConflict};
