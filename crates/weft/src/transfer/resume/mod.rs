//! Records of progress at the target: what was copied before, and where a part goes on.
//!
//! Invariant: progress counts only for bytes that are durable and still at the target.

mod begin;
mod mark;
mod target;

pub(super) use begin::{Begin, Lost, Occupied, Situation, decide};
pub(super) use mark::{Found, Identity, Marks, Record};
pub(super) use target::{Held, Target, look};
