//! Upkeep of stored bytes: scrub, check, repair, and the list of losses.
//!
//! Owns no state but the position of a pass, which the caller keeps. Invariants: a fault is
//! reported only if the entry in memory has it at that moment, because an entry of the index may be
//! outdated; a block that is given up becomes lost, never a hole. A closed or unopenable store is
//! repaired in `recovery/repair/`.

mod check;
mod coded;
mod losses;
mod repair;
mod scrub;
mod walk;

pub use check::{CheckOptions, CheckPass, Checked};
pub use coded::Restored;
pub use losses::Losses;
pub use scrub::Scrubbed;
pub use walk::ScrubPosition;
