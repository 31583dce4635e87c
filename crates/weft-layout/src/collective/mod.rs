//! The pieces of several members of a collective on one server.
//!
//! `rounds.rs` goes over all members' pieces in the order of the disk, `comparison.rs` finds bytes
//! that two members touch. Both take pieces from a cursor per member and go band by band
//! (`bands.rs`); `clipped.rs` leaves out bytes past the ends of cells.

mod bands;
mod clipped;
mod comparison;
mod cursor;
mod rounds;

pub use clipped::Clipped;
pub use comparison::{Comparison, MemberOverlap};
pub use cursor::Search;
pub use rounds::{Round, Rounds};
