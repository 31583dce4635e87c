//! Which blocks of the disks are free, and which of them a write gets.
//!
//! Owns the allocator: extents in memory, rebuilt at open from what index and log refer to; nothing
//! of it is durable. Blocks are numbered as in [`Place`](crate::record::Place): the disk in the
//! upper 16 bits. `docs/design/0010-disks.md` says how a place is chosen.
//!
//! Invariants:
//! 1. A block is free, in a window, waiting, or referred to by one map (or one write under way):
//!    never two.
//! 2. `reserved` dirty blocks can always be placed, unless a disk fails: writes are refused before
//!    that is in doubt.
//! 3. A free block without a sure place on the host (`host`) is given to no write before it was
//!    filled; none is punched out that is not free.
//! 4. A freed block is given out again only when a durable `Synced` record covers the record that
//!    freed it ([`Allocator::release`]): until then recovery may still need its content.

mod allocator;
mod choose;
mod disk;
mod extent;
mod free;
mod host;
#[cfg(test)]
mod tests;
mod windows;

pub(crate) use allocator::Allocator;
pub(crate) use extent::{AllocHint, Extent};
pub(crate) use host::{PunchReserve, PunchWalk};
pub(crate) use windows::WINDOW_MAX;
