//! `weft mount`: mounts a volume on a directory. The file system is in `weft-mount`; here are the
//! process, its options, its start, and its end.
//!
//! `up` and `down` mount and unmount a volume with its servers ([`with_volume`], [`unmount_of`]).

mod args;
mod background;
mod command;
mod detach;
mod helper;
mod of_volume;
mod options;
mod path;
mod remount;
mod source;
mod users;

pub(crate) use args::Mount;
pub(crate) use detach::unmount;
pub(crate) use helper::as_mount_helper;
pub(crate) use of_volume::{is_of_volume, record_mount, unmount_of, with_volume};
pub(crate) use path::prepare;
