//! Usage and bounds of users, groups and directory trees.
//!
//! Every transaction charges what it makes of inodes in one place, so no operation can forget it.

mod charge;
mod growth;
mod recount;

pub use charge::{Payer, Used};
pub(crate) use charge::{charged_bytes, quota_record, trees_above};
pub(crate) use growth::Growth;
pub use growth::{Growing, GrowingFiles};
pub(crate) use recount::{corrected, count_usage, first_count, stored_records};
