//! Pieces of patterns: many runs of a view, strip by strip.
//!
//! `strips.rs` is the common case. A [`Finder`] finds the next local bytes of a view, as a window
//! that the runs then fall into; `even.rs` is its fast form. `runs.rs` is for column-major order,
//! where each run is rearranged in itself.
//!
//! Invariants:
//! 1. Client and server produce the same pieces in the same order: it is a wire contract (see the
//!    parent module).
//! 2. [`Pieces::shaped`](super::Pieces) has checked the whole nest against the bounds; nothing here
//!    checks again.
//! 3. `look(n)` returns after `n` runs, also if none of them is local, so that a caller can yield
//!    its thread.

mod even;
mod finder;
mod runs;
mod strips;
mod window;

pub(super) use finder::Finder;
pub(super) use runs::RunPieces;
pub(super) use strips::StripPieces;
