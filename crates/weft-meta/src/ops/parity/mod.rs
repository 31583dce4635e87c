//! Parity of files: which are to be coded, and the steps of a coding
//! (`docs/design/0050-parity.md`).
//!
//! Invariants: a file has at most one coding that counts and one that was begun; the parity file
//! and the checkpoint of each are recorded in the transaction that begins it, and removed in the
//! one that ends it.

mod begin;
mod end;
mod find;
mod state;

pub(crate) use begin::{begin_coding, coding_begun};
pub(crate) use end::end_coding;
pub(crate) use find::{find_coding, list_parity};
