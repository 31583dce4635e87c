//! Open files, and what this mount has written of them that the service does not know yet.
//!
//! - `modes`: how a file is opened and written. `handle`: one open. `open_files`: all opens by
//!   file.
//! - `pages`: changes of a file past the kernel's pages, beside those pages.
//! - `open`, `io`, `close`: the life of an open. `allocate`, `copy`: fallocate, seek and copies.
//! - `kept_files`: small files that stay attached after their last close.
//! - `privileges`: set-id bits and capabilities that a change of bytes takes away.

mod allocate;
mod close;
mod copy;
mod handle;
mod io;
mod kept_files;
mod modes;
mod open;
mod open_files;
mod pages;
mod privileges;

pub use modes::{Opened, WriteHow, WriteWay};

pub(super) use handle::Handle;
pub(super) use kept_files::KeptFiles;
pub(super) use modes::{access, writes};
pub(super) use open_files::OpenFiles;
pub(super) use privileges::CAPABILITY;
