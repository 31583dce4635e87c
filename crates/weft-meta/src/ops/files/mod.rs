//! Open files: attaching and detaching, sizes, and the bytes of small files.
//!
//! Owns no state: attachments and reservations of appends are in `open/`. Invariants: a size is
//! marked inexact before the attach of a writer is answered, and exact again only when no writer is
//! left; once spilled, a file never becomes inline again. Nothing here calls an I/O server: the
//! caller carries out the steps of a spill or a truncate, and asks for sizes.

mod append;
mod attach;
mod detach;
mod report;
mod sizes;
mod spill;
mod store_inline;
mod truncate;

pub use append::Append;
pub(crate) use append::{append, append_after};
pub use attach::Attached;
pub(crate) use attach::attach;
pub(crate) use detach::detach;
pub(crate) use report::report;
pub use sizes::UnsettledFile;
pub(crate) use sizes::{
    doubt_sizes, find_unknown_sizes, has_unsettled, mark_size_unknown, settle_size, take_unsettled,
};
pub use spill::{Spill, SpillEnd};
pub(crate) use spill::{begin_spill, end_spill, undo_spill};
pub(crate) use store_inline::store_inline;
pub use truncate::Truncation;
pub(crate) use truncate::{pending_truncate, truncate};
