//! The data path: reads, writes, and copies within this server and to others.
//!
//! Reads and writes are streams: neither side holds more of one than a few batches or frames.

mod clear;
mod copy;
mod lengths;
mod peers;
mod read;
mod send;
mod write;

pub(super) use lengths::runs;
pub(crate) use peers::Peers;
pub(super) use send::SendClient;
