//! The state of an open volume: the parts of all rooms, in one struct.
//!
//! `shared.rs` composes them and hands them out; the rules that touch several parts are in `tx/`
//! and `ops/`. `incarnations.rs` says which acknowledged changes a restart may have lost.

mod incarnations;
mod shared;

pub(crate) use incarnations::Incarnations;
pub(crate) use shared::State;
