//! Upkeep of the store: scrub, check, disks, free space, and losses.
//!
//! Owns the background pass of the scrub ([`Scrubber`]) and the check in progress
//! ([`StoreChecks`]): at most one of each. Invariant: a scrub rests after each step, longer if
//! calls use the disk. What is checked and repaired is decided in `weft-store`; here are pace,
//! progress and wire form.

mod calls;
mod cleaner;
mod fsck;
mod scrub;
mod store_check;

pub(in crate::io) use cleaner::Cleaner;
pub(crate) use cleaner::clean_regularly;
pub use fsck::finding_on_the_wire;
pub(super) use scrub::Scrubber;
pub(super) use store_check::StoreChecks;
