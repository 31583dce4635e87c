//! Quotas: bounds, usage, and files that grow towards a bound.

mod bounds;
mod growth;
mod usage;

pub(crate) use bounds::{list_quotas, quotas_of, set_quota};
pub(crate) use growth::{growing, growing_soon, limits_growth, look_for_bounds, note_growth};
pub(crate) use usage::{count_again, usage};
