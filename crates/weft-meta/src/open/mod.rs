//! Which client has which file open.
//!
//! This module owns the table of attachments ([`OpenFiles`]), the set of files whose size is
//! unknown ([`UnknownSizes`]) and the grace period after a restart ([`Grace`]). All are in memory
//! only: after a restart clients report again what they have open.
//!
//! Invariants:
//! 1. A file counts as open from before its attach is answered until its detach, or the end of its
//!    client.
//! 2. Two appends never get overlapping ranges while the file is open.

mod attachment;
mod grace;
mod open_files;
mod unknown_sizes;

pub(crate) use attachment::{Author, Ended, OpenMode, SizeBefore};
pub(crate) use grace::{Clients, Grace, LastRun};
pub(crate) use open_files::OpenFiles;
pub(crate) use unknown_sizes::UnknownSizes;
