//! Mounts a volume under a path of the machine, so that any program can use its files.
//!
//! Three layers; each knows only those below it:
//!
//! - `fuse/`, the kernel's interface: requests turned into calls on the file system, errors into
//!   errnos;
//! - `fs/`, the file system: open files, directories, attributes; it knows no kernel type;
//! - `data/`, the data cache: write-behind and read-ahead over an attached file; it knows no names.

pub mod data;
pub mod fs;
pub mod fuse;
mod layout_text;
mod limits;
mod outage;
