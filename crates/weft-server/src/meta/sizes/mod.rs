//! The sizes of files whose writers do not report them: kept within quotas while they grow, and
//! settled after their last writer is gone (`docs/design/0011-quotas.md`).
//!
//! Owns [`LimitLease`], until when servers may hold limits of this volume; unsettled files and
//! quotas are the namespace's. Invariants: a size is settled only if every server of the file has
//! answered; an attach waits for growth limits up to a timeout. Quotas are charged in `weft-meta`,
//! not here.

mod growth;
mod lease;
mod settle;

pub(super) use lease::LimitLease;
