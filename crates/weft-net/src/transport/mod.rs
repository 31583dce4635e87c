//! Byte streams between processes: the traits, and their implementations over TCP and local
//! sockets.
//!
//! [`SystemNetwork`] connects machines by TCP and the processes of one machine by Unix sockets
//! (`docs/design/0016-local-sockets.md`); [`TcpNetwork`] is TCP alone. Simulations implement
//! [`Network`] themselves.

mod local;
mod local_stream;
mod network;
mod tcp;
mod tcp_stream;

pub use local::SystemNetwork;
pub use network::{Accepted, BoxRead, BoxWrite, Gauge, Listener, Network, Opened};
pub use tcp::TcpNetwork;
