//! The public handle of a volume's namespace.
//!
//! `format.rs` writes an empty volume, `open.rs` opens and closes one. `calls.rs` has what clients
//! ask for, `upkeep.rs` what the service does by itself; both only pass on to `ops/` and `check/`.

mod calls;
mod format;
mod handle;
mod open;
mod upkeep;

pub use calls::mutates;
pub use format::VolumeSettings;
pub use handle::{Counts, Namespace};
