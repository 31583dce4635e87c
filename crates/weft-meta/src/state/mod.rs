//! The state of an open volume: the tables of the modules below, in one struct.
//!
//! `volume_state.rs` composes them and lends each; rules over several tables are in `tx/` and
//! `ops/`. `incarnations.rs` owns the record of the service's incarnations, which shows which
//! acknowledged changes a restart lost; it alone writes and syncs it, outside of transactions.
//!
//! Invariant: locks are taken in this order: the engine's writer, the table of open files, any
//! other table. Each table but that of the open files locks inside its own calls.

mod incarnations;
mod volume_state;

pub(crate) use incarnations::Incarnations;
pub(crate) use volume_state::VolumeState;
