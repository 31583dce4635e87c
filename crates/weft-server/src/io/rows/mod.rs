//! Rows of data and parity: bytes of a file, computed from pieces on other servers
//! (`docs/design/0050-parity.md`).
//!
//! Owns what is known of coded files ([`Rows`]), by file and checkpoint: neither the lengths of a
//! checkpoint nor a parity file ever change. Invariant: what it returns is not believed before the
//! store has compared it with the checksums of its blocks.

mod fetch;
mod file;
mod read;

pub(in crate::io) use fetch::read_fork;
pub(in crate::io) use file::{FileRows, PieceAt, forks};
pub(crate) use read::Rows;
