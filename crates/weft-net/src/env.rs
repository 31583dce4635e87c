//! The seams towards the outside: network, wall clock, randomness.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// The receiving half of a byte stream.
pub type BoxRead = Box<dyn AsyncRead + Send + Unpin>;
/// The sending half of a byte stream.
pub type BoxWrite = Box<dyn AsyncWrite + Send + Unpin>;

/// Tells how many of the bytes that were sent the peer's machine has taken, while more are under
/// way; `None` when nothing is under way, or the stream is gone.
pub type Gauge = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// A byte stream that was just opened.
pub struct Opened {
    /// The receiving half.
    pub read: BoxRead,
    /// The sending half.
    pub write: BoxWrite,
    /// What the peer takes, where that can be known.
    pub gauge: Option<Gauge>,
}

/// A byte stream that was just accepted.
pub struct Accepted {
    /// The receiving half.
    pub read: BoxRead,
    /// The sending half.
    pub write: BoxWrite,
    /// Where it comes from, for people.
    pub peer: String,
    /// Whether it came through [`Listener::local`].
    pub local: bool,
}

/// Opens and accepts byte streams.
pub trait Network: Send + Sync {
    /// Connects to `host:port`.
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Opened>>;
    /// Connects to what [`Listener::local`] told, if that is on this machine.
    ///
    /// # Errors
    /// Any, when it is elsewhere or this network has no such way.
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
    /// Where it listens.
    fn address(&self) -> io::Result<String>;
    /// The name under which programs on the same machine reach it without the network's detours, if
    /// there is such a way.
    fn local(&self) -> Option<&str> {
        None
    }
}

/// The time of day.
pub trait WallClock: Send + Sync {
    /// Nanoseconds since the epoch.
    fn now(&self) -> i64;
}

/// Randomness.
pub trait Entropy: Send + Sync {
    /// Fills `out` with unpredictable bytes.
    fn fill(&self, out: &mut [u8]);
}

/// How long to wait for a peer.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// For a connection to be opened and proven.
    pub connect: Duration,
    /// Between pings on a connection where an answer is awaited.
    pub ping: Duration,
    /// Without a byte while an answer is awaited: the connection is lost (seen at the next ping).
    /// Also how long a closed connection may take to send what is queued.
    pub silence: Duration,
    /// Without any frame at all: the server closes the connection.
    pub idle: Duration,
    /// After a failed connect, before the next try, twice as long before each further one up to a
    /// quarter of a second; calls in between fail with the same error.
    pub backoff: Duration,
    /// After a client's last connection to the metadata service has ended, before what it had open
    /// counts as closed; and after a start of the service, before nobody can have anything open any
    /// more but those who said so.
    pub grace: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            connect: Duration::from_secs(3),
            ping: Duration::from_secs(1),
            silence: Duration::from_secs(5),
            idle: Duration::from_mins(1),
            backoff: Duration::from_millis(50),
            grace: Duration::from_secs(20),
        }
    }
}

/// Everything outside a process that a service or client needs.
#[derive(Clone)]
pub struct Env {
    /// Byte streams.
    pub network: Arc<dyn Network>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// How long to wait.
    pub timing: Timing,
}

impl Env {
    /// The real network, local sockets, clock and randomness of this machine.
    pub fn system() -> Env {
        Env {
            network: Arc::new(crate::SystemNetwork),
            clock: Arc::new(crate::SystemClock),
            entropy: Arc::new(crate::SystemEntropy),
            timing: Timing::default(),
        }
    }

    /// A random number, e.g. to name this client.
    pub fn random_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}
