//! FUSE over io_uring (Linux 6.14 and later): for each processor a queue of requests, served by a
//! thread that stays on that processor.
//!
//! A program's request wakes the thread on the processor where the program waits; by `/dev/fuse` it
//! wakes any thread, mostly on another processor (`docs/design/0038-fuse-over-io-uring.md`).
//!
//! From below: `slot` (memory for one request and its answer, which kernel and mount hold in turn),
//! `queue` (answers that wait to be handed to the kernel), `commands`, `worker` (a queue's thread),
//! `rings` (all of them). Forgets, interrupts and notifications go by `/dev/fuse` as before.
//!
//! Invariants:
//! 1. A slot's memory outlives the ring that the kernel knows it by, and is used by one side at a
//!    time.
//! 2. Only a queue's own thread submits to its ring.
//! 3. A queue has free slots, up to [`crate::limits::RING_SLOTS_MAX`], however many requests wait
//!    in the mount: an unlock must reach it while others wait for the lock.

mod commands;
mod queue;
mod rings;
mod slot;
mod worker;

pub(in crate::fuse) use queue::SlotAnswer;
pub(in crate::fuse) use rings::{PARAMETER, Rings, is_offered};
