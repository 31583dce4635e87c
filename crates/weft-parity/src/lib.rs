//! Rows of data and parity (`docs/design/0050-parity.md`): which parts of a file are in a row, and
//! the arithmetic over them.
//!
//! Owns no state. [`Rows`] says where the pieces of a row lie, [`SlotParts`] how the forks of a
//! server are divided into parts, and [`Code`] computes pieces from others. Invariant: the pieces
//! of a row are on different slots, so that each lost server costs a row one piece.

mod code;
mod parts;
mod rows;
mod shape;

pub use code::{Code, CodeError};
pub use parts::{PART_BYTES, PartAt, SlotParts};
pub use rows::{Item, Piece, Rows};
pub use shape::{DATA_MAX, PARITY_MAX, Shape, ShapeError};
