//! All client tests in one program: linking one program per file took most of the build time.

mod cases;
mod cautious;
mod common;
#[path = "../../weft-layout/tests/model/mod.rs"]
mod model;
mod quotas;

mod addressed;
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
mod plugins;
mod pointers;
mod policies;
mod ranges;
mod referee;
mod refusals;
mod requests;
mod round_memory;
mod stalled;
mod together;
mod very_many;
