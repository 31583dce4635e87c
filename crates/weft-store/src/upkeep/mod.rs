//! Upkeep of stored bytes: scrub, check, repair, and the list of losses.
//!
//! Owns no state but the position of a pass, which the caller keeps.

mod check;
mod losses;
mod repair;
mod scrub;
mod walk;

pub use check::{CheckOptions, CheckPass, Checked};
pub use losses::Losses;
pub use scrub::Scrubbed;
pub use walk::ScrubPosition;
