//! The kernel's FUSE interface: requests turned into calls on the file system, errors into errnos.
//!
//! Why not a ready-made crate: `fuser` 0.18 answers every `FUSE_INTERRUPT` with "not supported", so
//! a program that waits for a dead server cannot be killed; it does not distinguish `flock` from
//! `fcntl` locks; it hides the flags that say when set-id bits must be cleared; and it lends a
//! write's bytes from its one buffer, so each byte is copied once more. The rest of the interface
//! is a table of structures and a loop.
//!
//! Requests come by `/dev/fuse`, of which each reader thread has a descriptor, or if the mount is
//! asked to, through io_uring, with a thread on each processor. Such a thread never waits: it polls
//! a request once, and a request that does not finish then (cached data does) continues as a task.
//! The number of requests in flight is not limited here.
//!
//! From below: `device/` (bytes to and from the kernel), `mount/` (attach, detach and look up
//! mounts), `requests/` (one request becomes one call), `session/` (threads, interrupts,
//! notifications).
//!
//! Invariants:
//! 1. Every request but a forget is answered exactly once, also if its task is cancelled.
//! 2. A killed program waits at most a second for a request (`session/abandon.rs`); other signals
//!    end only a wait for a lock.
//! 3. What a request has started runs to its end and is recorded, even if no program waits for it
//!    any more.

mod device;
mod mount;
mod requests;
mod session;

pub use mount::{
    Appearance, FILE_SYSTEM, MountAction, MountError, MountFlags, Mounted, Probe, detach, is_dead,
    look, mounted, mounted_on, mounts_below, process_of, remount, stopped_process, told,
};
pub use session::{Mount, Negotiated, Running};
