//! The lock table: who holds which lock, and who waits. A pure data structure: no time, no threads, no messages.
//!
//! Two families that do not see each other, as on Linux: whole-file locks (`flock`) and locks on ranges of bytes
//! (`fcntl`), which split and merge. An owner is a client and a number of its choosing. A request that must wait is
//! kept under a ticket; whatever lets go answers the tickets that are granted by it, in the order in which they came. A
//! new request is granted whenever nothing that is *held* excludes it, also past those who wait (as on Linux;
//! otherwise an owner that holds much and asks for a little more would wait for those who wait for it).
//!
//! Invariants:
//! 1. Of two locks of one family that overlap and belong to different owners, none is exclusive.
//! 2. Whoever waits is excluded by a lock that is held.
//! 3. No request for a range begins to wait that would close a circle. (Owners of whole files may wait in one: Linux
//!    does not look either.)
//!
//! Deliberately absent: permissions, which the kernel or the door checks; and fairness beyond the above.

mod lock;
mod ranges;
mod table;

pub use lock::{Family, Lock, Owner, Span};
pub use table::{Granted, LockTable, Outcome};
