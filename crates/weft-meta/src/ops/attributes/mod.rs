//! Attributes: reading and changing them, and access times.
//!
//! Owns no state. Invariants: a request that changes several attributes changes all of them or
//! none; permissions are checked before anything changes. Which reads count for an access time is
//! decided by the mount, layouts are chosen in `servers/placement.rs`, and the transaction charges
//! quotas.

mod access_times;
mod set_attributes;
mod stat;

pub(crate) use access_times::note_accesses;
pub(crate) use set_attributes::{apply, set_attributes};
pub(crate) use stat::stat;
