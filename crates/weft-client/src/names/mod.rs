//! Names and attributes: one request to the metadata service each.
//!
//! Owns no state.

mod access;
mod namespace;
mod place;
mod quota;
mod stat;
mod watch;

pub use access::{Access, NewLayout};
pub use namespace::{
    Changes, Listed, Listing, NewDirectory, NewMode, Removed, Renamed, Time, XattrMode,
};
pub use place::Place;
pub use quota::{NewBounds, Payer, Quota};
pub use stat::{Attributes, FileKind};
pub(crate) use stat::{Cells, ForkStates, is_regular, kind_name, size_of};
pub use watch::{Changed, ChangedEntry, Watch};
