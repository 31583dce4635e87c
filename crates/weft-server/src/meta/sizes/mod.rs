//! The sizes of files whose writers do not report them: kept within quotas while they grow, and
//! settled after their last writer is gone (`docs/design/0011-quotas.md`).

mod growth;
mod lease;
mod settle;

pub(super) use lease::LimitLease;
