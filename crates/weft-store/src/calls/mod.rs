//! The calls about bytes of forks: they go to `io`, `paging` or `files` for plain forks, and to
//! `addressed` for addressed ones.
//!
//! Owns no state. Invariant: a caller need not know how a fork is kept, except to make it.

mod data;
mod ranges;
mod resize;
