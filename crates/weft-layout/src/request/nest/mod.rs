//! A pattern, checked and laid out flat for walking: strips in nested loops.
//!
//! A **strip** is one innermost loop: `count` runs of `length` bytes, `stride` apart. A **rank** is
//! a byte's place among the bytes of the request, in the caller's order. A nest may be walked in
//! another order than that (see `ascending.rs`), so each loop also says how ranks step.
//!
//! `tree.rs` builds a pattern up as a tree, `ascending.rs` reorders one, `flat.rs` checks it and
//! lays it out, `walk.rs` goes over its strips.
//!
//! Invariants:
//! 1. Every run of every strip lies between the first and the end of its nest, and the end is at
//!    most [`OFFSET_MAX`](crate::OFFSET_MAX); sums on the way there may be negative and wrap back.
//! 2. No strip and no loop is empty.

mod ascending;
pub(super) mod flat;
pub(super) mod tree;
mod walk;

pub(crate) use flat::Nest;
pub(crate) use tree::{Strip, Tree};
pub(crate) use walk::Walk;
