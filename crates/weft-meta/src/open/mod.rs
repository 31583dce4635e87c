//! Which client has which file open.
//!
//! The room owns the table of attachments ([`OpenFiles`]), the set of files whose size is not known
//! ([`Unsettled`]) and the grace period after a restart ([`Grace`]). All are in memory only: after
//! a restart clients tell again what they have open.
//!
//! Invariants:
//! 1. A file counts as open from before its attach is answered until its detach, or its client's
//!    end.
//! 2. Two appends never get overlapping ranges while the file is open.

mod attachment;
mod grace;
mod open_files;
mod unsettled;

pub(crate) use attachment::{Author, Ended, OpenMode, SizeBefore};
pub(crate) use grace::{Clients, Grace, LastRun};
pub(crate) use open_files::OpenFiles;
pub(crate) use unsettled::Unsettled;
