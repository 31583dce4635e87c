//! The door: the kernel's FUSE interface.
//!
//! Why not a ready-made crate. `fuser` 0.18 answers every `FUSE_INTERRUPT` with "not supported", so
//! that a program waiting for a dead server cannot be killed; does not tell `flock` from `fcntl`
//! locks; keeps the flags that say when set-id bits must go to itself; and lends a write's bytes
//! from its one buffer, so that each is copied once more. What is left of the interface is a table
//! of structures and a loop, which is here.
//!
//! Each reader thread has a descriptor of its own and never waits: a request is begun on it, and if
//! it is not finished at once (what is cached is), it goes on as a task. Any number of requests is
//! under way.
//!
//! Invariants:
//! 1. Every request but a forget is answered exactly once, also if its task is cancelled.
//! 2. Whoever is killed waits no longer than a second for a request (`interrupted`); other signals
//!    end none, but a wait for a lock.
//! 3. What a request has begun is carried to its end and noted, also if nobody waits for it any
//!    more.

mod abi;
mod attach;
mod attribute_requests;
mod buffers;
mod device;
mod flags;
mod init;
mod interrupted;
mod locks;
mod notices;
mod operations;
mod pack;
mod requests;
mod session;
mod table;

pub use attach::{Appearance, MountError, detach};
pub use flags::{MountFlags, remount};
pub use init::Negotiated;
pub use session::{Mount, Running};
pub use table::{
    FILE_SYSTEM, Look, Mounted, is_dead, look, mounted, mounted_on, mounts_below, process_of,
    stopped_process, told,
};
