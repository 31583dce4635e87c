//! Upkeep of the store: scrub, check, disks, free space, and losses.

mod calls;
mod fsck;
mod scrub;
mod store_check;

pub use fsck::finding_on_the_wire;
pub(super) use scrub::Scrubber;
pub(super) use store_check::StoreChecks;
