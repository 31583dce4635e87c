//! Where the bytes of a collective come from and go to: sources of a write, sinks of a read, and
//! the assembly of a round of a write in memory.

mod assembly;
mod sink;
mod source;

pub(super) use assembly::Assembly;
pub(super) use sink::Sinks;
pub(super) use source::Sources;
