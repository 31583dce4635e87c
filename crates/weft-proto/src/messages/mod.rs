//! The messages: bodies of requests and replies, a file or folder for each family of calls.
//!
//! Owns the fields and their numbers. Invariants: a number is never reused; a message without an
//! optional field keeps its old meaning; golden bytes of every message are in `tests/golden/`. The
//! kinds of calls are in `call.rs`, bounds in `limits.rs`; `convert` and the receivers check
//! values.

pub mod addressed;
pub mod checkpoint;
pub mod collective;
pub mod coord;
pub mod delegation;
pub mod fsck;
pub mod inline;
pub mod io;
pub mod meta;
pub mod order;
pub mod parity;
pub mod pointer;
pub mod quota;
pub mod replica;
pub mod session;
pub mod stamp;
pub mod upkeep;
