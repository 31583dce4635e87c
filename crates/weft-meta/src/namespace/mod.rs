//! The public handle of a volume's namespace.
//!
//! `format.rs` writes an empty volume, `open.rs` opens and closes one. `calls.rs` has the calls of
//! clients, `upkeep.rs` those that the service makes by itself; both only pass them on to `ops/`
//! and `check/`.

mod calls;
mod format;
mod handle;
mod open;
mod upkeep;

pub use calls::mutates;
pub use format::VolumeSettings;
pub use handle::{Counts, Namespace};
