//! What is not proven: bytes that a damaged log or an older copy puts in doubt, and which forks the
//! last frames touched, so that damage of a frame puts few files in doubt.
//!
//! Owns both sets; `docs/design/0024-losses.md` has the rules.

mod doubts;
mod lossy;
mod touches;

pub(crate) use doubts::Doubts;
pub(crate) use lossy::LossyChunks;
pub(crate) use touches::{TouchedSpan, Touches};
