//! The calling side: a [`Connection`] carries any number of calls.
//!
//! `call_table.rs` owns the calls in flight and their windows, `call.rs` is one of them as its
//! caller holds it, [`Incoming`] and [`Outgoing`] are calls with payload, `keep_alive.rs` notices a
//! silent server.

mod call;
mod call_table;
mod connection;
mod incoming;
mod keep_alive;
mod outgoing;

pub use connection::Connection;
pub use incoming::Incoming;
pub use outgoing::Outgoing;
