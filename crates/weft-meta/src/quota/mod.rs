//! Usage and bounds of users, groups and directory trees.
//!
//! This module owns the growth that writers have not reported ([`Growth`]), in memory. Usage and
//! bounds are records: [`charge()`] computes their changes by a transaction in one place, so no
//! operation can forget it.

mod charge;
mod growth;
mod payer;
mod recount;
mod usage;

pub(crate) use charge::{Bounds, charge};
pub use growth::{GrowingFile, GrowingFiles};
pub(crate) use growth::{Growth, Inline, Unbounded, growing_among};
pub use payer::{Payer, Used};
pub(crate) use recount::{corrected, count_usage, first_count, stored_records};
pub(crate) use usage::{charged_bytes, quota_record, trees_above};
