//! The free blocks of the disks, and which of them a write gets.
//!
//! Owns the [`Allocator`]: extents in memory, rebuilt at open from the maps of index and log; none
//! of it is durable. Only `state` holds it, so no file of `forks`, `pages` or `cache` can change
//! it. Calls: [`Allocator::take`] and [`Allocator::take_reserved`], [`Allocator::free_after`],
//! [`Allocator::release`], [`Allocator::reserve`]. Blocks are numbered as in
//! [`Place`](crate::record::Place): the disk in the upper 16 bits. `docs/design/0010-disks.md`
//! describes how a place is chosen.
//!
//! Invariants:
//! 1. A block is free, in a window, waiting, or referred to by one map (or one write in flight):
//!    never two of these.
//! 2. `reserved` dirty blocks can always be placed, unless a disk fails: writes are refused first.
//! 3. No write gets an unbacked free block (`host`) before it is filled; only free blocks are
//!    punched out.
//! 4. A freed block is reused only after a durable `Synced` record covers the frame that freed it
//!    ([`Allocator::release`]): until then recovery may need its contents.

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
