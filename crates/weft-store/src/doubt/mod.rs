//! Unproven data: bytes that a damaged log or an older copy puts in doubt, and the forks that the
//! last frames touched, so that damage of a frame puts few files in doubt.
//!
//! Owns the doubt of each fork ([`Doubts`]), the touched forks ([`TouchedForks`]), and the chunks
//! with lost blocks ([`LossyChunks`]). Invariant: doubt only shrinks between repairs. The rules are
//! in `docs/design/0024-losses.md`.

mod doubts;
mod lossy;
mod touches;

pub(crate) use doubts::Doubts;
pub(crate) use lossy::LossyChunks;
pub(crate) use touches::{TouchedForks, TouchedSpan};
