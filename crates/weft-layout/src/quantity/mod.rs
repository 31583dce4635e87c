//! Quantities as types: an index, a count, a size and an offset are four things.
//!
//! Each wraps one integer and nothing converts silently: a [`CellOffset`] cannot be added to a
//! [`ViewOffset`]. The inner value is public, because the arithmetic of this crate is exactly the
//! place where one kind is turned into another.

pub mod size;

use std::fmt;

/// The largest offset, length or size that Weft handles: 2⁶³ − 1, the limit of `off_t`.
pub const OFFSET_MAX: u64 = i64::MAX as u64;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

quantity!(
    /// Names one file for ever: allocated by the metadata service, never used twice.
    FileId(u64)
);
quantity!(
    /// Names one server of a volume for ever, whatever its address.
    ServerId(u32)
);
quantity!(
    /// A position in a layout's server list; cell `i` lives on slot `i mod servers`.
    ServerSlot(u32)
);
quantity!(
    /// A cell's number in its file, from 0.
    CellIndex(u32)
);
quantity!(
    /// A byte position inside one fork of one cell.
    CellOffset(u64)
);
quantity!(
    /// A byte position inside a view.
    ViewOffset(u64)
);
quantity!(
    /// A byte position in the canonical order of a file.
    FileOffset(u64)
);
