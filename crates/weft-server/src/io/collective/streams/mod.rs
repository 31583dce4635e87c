//! Where the bytes of a collective come from and go to: sources of a write, sinks of a read, and
//! the assembly of a round of a write in memory.
//!
//! Owns the members' payloads and replies while their job runs, and the memory of a round.
//! Invariants: a byte is copied once, from its frame to its place; a stream that ends early or
//! stalls too long counts as lost, and the others continue. Nothing here calls the store or decides
//! whether the job continues without a member: `write.rs` and `read.rs` do.

mod assembly;
mod sink;
mod source;

pub(super) use assembly::Assembly;
pub(super) use sink::Sinks;
pub(super) use source::Sources;
