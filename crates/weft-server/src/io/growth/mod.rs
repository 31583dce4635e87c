//! Growth limits: how long files may become whose user, group or tree has a quota.
//!
//! A limit is a size in canonical order, so a write is checked by the place of its last byte,
//! without a look at the cells: writes below the limit are never delayed. Other forks have no place
//! in that order: what each write adds to them is subtracted from what is left. Limits are in
//! memory, and survive a restart of the metadata service; they expire, so that a service that is
//! gone stops no writer forever. See `docs/design/0011-quotas.md`.

mod calls;
mod table;

pub(super) use table::GrowthLimits;
