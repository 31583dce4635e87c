//! Space of the host: the disks' files grow when writes need it, and free blocks go back to the
//! host.
//!
//! Owns no state. Rules: `docs/design/0025-space.md`.

mod grow;
mod trim;

pub use trim::Trimmed;
pub(crate) use trim::trim_in_background;
