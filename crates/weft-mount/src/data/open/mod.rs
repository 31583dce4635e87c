//! One open file description over the shared state of its file.
//!
//! - `open_data`: its life, reads, and what it knows of the size.
//! - `write`: writes, appends, truncations.
//! - `sync`: flush, sync and close, and which failures they report.
//! - `server_side`: changes that the servers make by themselves under the cache.

mod open_data;
mod server_side;
mod sync;
mod write;

pub use open_data::OpenData;
pub use sync::DurableSends;
