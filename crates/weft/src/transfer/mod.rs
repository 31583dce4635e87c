//! Copies a file between the local file system and a view of a file in the volume: in parts for
//! different processes and machines, with several pieces in flight, resumable, verified.
//!
//! The view decides which bytes are copied and in which order: byte `i` of the local file is byte
//! `--offset + i` of the view. The bytes of a part follow from the length, the part's number and
//! the number of parts. Parts do not communicate; what a part does at the target (creating it,
//! setting its size, the records of [`resume`]) is idempotent, and safe while another part does the
//! same.
//!
//! Invariants:
//! 1. A part writes only its own share; the target's size is set before any data is written.
//! 2. Recorded progress is durable.
//! 3. A transfer whose source has changed never succeeds.
//! 4. Existing data is overwritten only on request.
//! 5. Progress does not count for bytes that the target no longer holds ([`resume`]).
//!
//! Trees go through [`crate::copy`], which copies several files at a time; with a view, or for a
//! comparison, they go file by file ([`each`]).
//!
//! # Source
//! Vesta §4.6.

mod args;
mod checks;
mod data;
mod each;
mod export;
mod import;
mod report;
mod resume;
mod run;
mod share;
mod task;
mod tree;

pub(crate) use args::TransferArgs;
pub(crate) use export::export;
pub(crate) use import::import;
pub(crate) use run::run;
pub(crate) use tree::{export_tree, import_tree};
