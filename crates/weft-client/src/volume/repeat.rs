//! What a lost call means.

/// Whether a lost call may simply be repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It changes nothing, or the same thing again.
    Safe,
    /// It may have happened.
    Unsafe,
}
