//! Names: look up, make, link, rename, remove.
//!
//! - `namespace_sync`: which changes of names survive power loss, and which were refused.
//! - `lookup`, `make`, `remove`: the operations.
//! - `delegated`: changes in directories that the service has delegated to this mount, which it
//!   learns of later. `sync`: makes names durable.

mod delegated;
mod lookup;
mod make;
mod namespace_sync;
mod remove;
mod sync;

pub use lookup::Found;

pub(super) use namespace_sync::NamespaceSync;
