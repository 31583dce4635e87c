//! Space of the host: the disks' files grow when writes need it, and free blocks go back.
//!
//! Owns no state; `docs/design/0025-space.md` has the rules.

mod grow;
mod trim;

pub use trim::Trimmed;
pub(crate) use trim::give_back;
