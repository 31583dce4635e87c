//! The order among the operations of a file (`docs/design/0031-order.md`): claims, and operations
//! that touch several servers.
//!
//! Owns the claims on each file ([`Schedules`]) and the operations that are staged here
//! ([`Operations`]), both in memory: they end with the process. That an operation has taken effect
//! is in the store. Calls without a claim pass all of
//! this by.
//!
//! `extents`: the bytes that an operation claims. `schedule`: who waits for whom. `operations`:
//! from staged to ended. `outcomes`: what has taken effect, in the store. `forced`: files whose
//! operations must have a claim. `calls`: the calls of clients, and what becomes of operations
//! whose client has left.

mod calls;
mod extents;
mod forced;
mod operations;
mod outcomes;
mod schedule;

pub(super) use calls::Asking;
pub(super) use extents::{Extents, ForkExtents};
pub(super) use forced::ForcedCaution;
pub(super) use operations::{Effect, Operations};
pub(super) use schedule::{Mode, Schedules};
