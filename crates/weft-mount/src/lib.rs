//! A volume under a path of the machine: programs that never heard of Weft use its files.
//!
//! Three layers, arrows downward:
//!
//! - `fuse/`, the door: the kernel's requests turned into calls on the file system, errors into
//!   errnos;
//! - `fs/`, the file system: open files, directories, attributes; no kernel type in it;
//! - `data/`, the data cache: write-behind and read-ahead over an attached file; knows nothing of
//!   names.

mod begun;
pub mod data;
pub mod fs;
pub mod fuse;
mod layout_text;
mod outage;
