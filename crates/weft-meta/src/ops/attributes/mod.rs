//! Attributes: reading and changing them, and access times.

mod access_times;
mod set_attributes;
mod stat;

pub(crate) use access_times::note_accesses;
pub(crate) use set_attributes::{apply, set_attributes};
pub(crate) use stat::stat;
