//! Clients that keep names of chunks, and what they are told (CAPFS's callbacks, §3.4.4;
//! `docs/design/0033-policies.md`).
//!
//! A client that reads names with a callback is a *sharer* of the file on this server. Whoever
//! changes the file tells the sharers, and waits until they have handled it, before the change is
//! acknowledged. The only sharer gets the new names, several get the range.
//!
//! Owns the sharers and what they have not handled yet ([`Sharers`]), in memory: they end with the
//! connection, and a restarted server has none; and the mark in the store that there were some
//! (`mark.rs`).
//!
//! Invariants:
//! 1. No change of a file that has sharers is acknowledged while one of them may believe the old
//!    names: a sharer that does not answer within [`CALLBACK_PATIENCE`] is none any more, and its
//!    client has stopped believing by then (`weft-client/src/cache/mod.rs`).
//! 2. A client becomes a sharer before the names that it gets are read.
//!
//! [`CALLBACK_PATIENCE`]: crate::limits::CALLBACK_PATIENCE

mod calls;
mod mark;
mod table;

pub(super) use calls::{Change, on_the_wire};
pub(super) use table::Sharers;
