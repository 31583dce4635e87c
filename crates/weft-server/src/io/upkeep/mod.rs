//! Upkeep of the store: scrub, check, cleaner, disks, free space, and losses.
//!
//! Owns the background pass of the scrub ([`Scrubber`]), the check in progress ([`StoreChecks`]),
//! at most one of each, and the last pass of the cleaner ([`Cleaner`]). Invariant: a scrub rests
//! after each step, longer if calls use the disk. What is checked and repaired is decided in
//! `weft-store`; here are pace, progress and wire form.

mod calls;
mod clean;
mod cleaner;
mod fsck;
mod scrub;
mod store_check;

pub(crate) use clean::clean_regularly;
pub(in crate::io) use cleaner::Cleaner;
pub use fsck::finding_on_the_wire;
pub(super) use scrub::Scrubber;
pub(super) use store_check::StoreChecks;
