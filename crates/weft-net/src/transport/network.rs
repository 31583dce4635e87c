//! The traits of byte streams.

use std::io;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// The receiving half of a byte stream.
pub type BoxRead = Box<dyn AsyncRead + Send + Unpin>;
/// The sending half of a byte stream.
pub type BoxWrite = Box<dyn AsyncWrite + Send + Unpin>;

/// Returns how many sent bytes the peer's machine has acknowledged while more are in flight; `None`
/// when nothing is in flight or the stream is gone.
pub type Gauge = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// A byte stream that was just opened.
pub struct Opened {
    /// The receiving half.
    pub read: BoxRead,
    /// The sending half.
    pub write: BoxWrite,
    /// Progress of sent bytes, where the system knows it.
    pub gauge: Option<Gauge>,
}

/// A byte stream that was just accepted.
pub struct Accepted {
    /// The receiving half.
    pub read: BoxRead,
    /// The sending half.
    pub write: BoxWrite,
    /// Where it comes from, in words for people.
    pub peer: String,
    /// Whether it came through [`Listener::local`].
    pub local: bool,
    /// The process that it comes from, if that is on this machine and can be told.
    pub process: Option<u32>,
}

/// Opens and accepts byte streams.
pub trait Network: Send + Sync {
    /// Connects to `host:port`.
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Opened>>;
    /// Connects to the local socket of that name, if it is on this machine.
    ///
    /// # Errors
    /// Any, when the socket is on another machine or this network has no local sockets.
    fn connect_local<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
    /// Listens on `host:port`.
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;
}

/// Accepts byte streams.
pub trait Listener: Send {
    /// The next stream and where it comes from.
    ///
    /// # Cancellation
    /// Must be safe: no stream is lost when the future is dropped.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Accepted>>;
    /// The address on which it listens.
    fn address(&self) -> io::Result<String>;
    /// The name of its local socket, by which programs on the same machine reach it without the
    /// network stack; `None`: it has none.
    fn local(&self) -> Option<&str> {
        None
    }
}
