//! Shared offset pointers: each names the next bytes of a view for the processes that share it
//! (Vesta §4.3; `docs/design/0031-order.md`).
//!
//! Owns the pointers in memory, and their forks of the file [`ORDER_STATE`] in the store. A pointer
//! is loaded at its first use and forgotten when it is unused; the fork stays until the pointer or
//! its file is removed.
//!
//! Invariants:
//! 1. An answered take is in the store: it survives kill −9, and no later take overlaps it.
//! 2. A repeated take gets the answer of the first.
//! 3. Calls for one pointer take its lock in turn; nothing waits for a member while it holds it.
//!
//! `record`: the stored bytes. `state`: what a take does. `gathering`: members that take in order.
//! `table`: the pointers in memory. `calls`: the calls of clients.

mod calls;
mod gathering;
mod record;
mod state;
mod table;

pub(super) use table::Pointers;
