//! Quotas: bounds, usage, and files that grow towards a bound.
//!
//! Owns no state: bounds in memory and the arithmetic of charges are in `quota/`. Invariant: usage
//! changes in the transaction that changes an inode (`Tx`); here it is only read, counted for a new
//! tree quota, or counted again by a repair. Servers learn growth limits from `weft-server`
//! (`meta/sizes/growth.rs`).

mod growth;
mod info;
mod list;
mod of_file;
mod set;
mod usage;

pub(crate) use growth::{growing, growing_soon, limits_growth, load_bounds, note_growth};
pub(crate) use list::list_quotas;
pub(crate) use of_file::quotas_of;
pub(crate) use set::set_quota;
pub(crate) use usage::{count_again, usage};
