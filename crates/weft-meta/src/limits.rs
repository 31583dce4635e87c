//! Bounds of the namespace that no wire message states.

/// Names that one file can have.
pub const HARD_LINKS_MAX: u32 = 65_000;
