//! Which client has which file open.
//!
//! The room owns the table of attachments and the set of files whose size is not known. Both are in
//! memory only: after a restart clients tell again what they have open.

mod attachment;
mod grace;
mod open_files;
mod unsettled;

pub(crate) use attachment::{Author, OpenMode, SizeBefore};
pub(crate) use grace::{Clients, Grace, LastRun};
pub(crate) use open_files::OpenFiles;
pub(crate) use unsettled::Unsettled;
