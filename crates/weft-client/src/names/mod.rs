//! Names and attributes: one request to the metadata service for each operation, or for each page
//! of a listing. The exact size of a file that a client is writing comes from its servers
//! (`stat.rs`).
//!
//! Owns no state: a [`Listing`] or a [`Watch`] is its caller's. Invariant: every operation goes
//! through `Volume::meta`, which first reports earlier local changes; only a watch does not wait
//! for them. Nothing here touches attachments or data, or changes names locally (`file/`).

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
