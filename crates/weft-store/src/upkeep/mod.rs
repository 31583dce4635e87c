//! Looking after stored bytes: scrub, check, repair, and what is known to be lost.
//!
//! Owns no state but the position of a pass, which its caller keeps.

mod check;
mod losses;
mod mend;
mod scrub;

pub use check::{CheckPass, Checked};
pub use losses::Losses;
pub use scrub::{ScrubPosition, Scrubbed};
