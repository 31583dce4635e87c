//! Which client has which file open.
//!
//! The room owns the table of attachments and the set of files whose size is not known. Both are in
//! memory only: after a restart clients tell again what they have open.

mod appends;
mod inline;
mod open_files;
mod sessions;
mod unsettled;

pub use appends::Append;
pub use inline::Spill;
pub(crate) use open_files::OpenFiles;
pub(crate) use sessions::reap;
pub(crate) use unsettled::Unsettled;
pub use unsettled::UnsettledFile;
