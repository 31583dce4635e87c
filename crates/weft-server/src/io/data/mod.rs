//! The data path: reads, writes, and copies within this server and to others.
//!
//! Reads and writes are streams: neither side holds more of one than a few batches or frames. Owns
//! the connections to other I/O servers ([`Peers`]), and nothing else. Invariants: whatever changes
//! bytes of a file holds its write gate (`checkpoint/gates.rs`); whatever may extend it for a
//! client is checked against its growth limit first. Pieces come from `job/`, batches of a read
//! from `plan/`.

mod clear;
mod copy;
mod in_order;
mod lengths;
mod names;
mod read;
mod read_names;
mod scatter;
mod send;
mod write;

pub(super) use lengths::runs;
pub(super) use send::SendClient;
