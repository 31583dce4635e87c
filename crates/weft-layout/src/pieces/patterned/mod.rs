//! Pieces of patterns: many runs of a view, strip by strip.
//!
//! `strips.rs` is the common case. A [`Finder`] finds the next local bytes of a view, as a window
//! that the runs then fall into; `even.rs` is its fast form. `runs.rs` is for column-major order,
//! where each run is rearranged in itself.

mod even;
mod finder;
mod runs;
mod strips;
mod window;

pub(super) use finder::Finder;
pub(super) use runs::RunPieces;
pub(super) use strips::StripPieces;
