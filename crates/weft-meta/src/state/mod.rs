//! The state of an open volume: the tables of the modules below, in one struct.
//!
//! `volume_state.rs` composes them and gives access to each; the rules that concern several of them
//! are in `tx/` and `ops/`. `incarnations.rs` tells which acknowledged changes a restart lost.

mod incarnations;
mod volume_state;

pub(crate) use incarnations::Incarnations;
pub(crate) use volume_state::VolumeState;
