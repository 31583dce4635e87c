//! All tests of the client in one program: linking one for each file took most of the time of a
//! build.

mod cases;
mod common;
#[path = "../../weft-layout/tests/model/mod.rs"]
mod model;
mod quotas;

mod advise;
mod checkpoints;
mod collectives;
mod data;
mod data_ranges;
mod deaths;
mod failures;
mod fair;
mod inline;
mod lazy;
mod lists;
mod operations;
mod page;
mod pending_intents;
mod ranges;
mod requests;
mod round_memory;
mod stalled;
mod together;
mod very_many;
