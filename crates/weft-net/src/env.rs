//! Everything that a process needs from outside, behind traits so that simulations can replace it:
//! network, wall clock, randomness, timeouts and the idle states of processors.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::processors::{Processors, UnmanagedProcessors};
use crate::transport::{Network, SystemNetwork};

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

/// Timeouts and intervals of connections.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Timeout of opening a connection, handshake included.
    pub connect: Duration,
    /// Interval between pings while an answer is awaited.
    pub ping: Duration,
    /// Time without a byte, while an answer is awaited, after which the connection is lost (noticed
    /// at the next ping). Also the time that a closed connection may take to send its queue.
    pub silence: Duration,
    /// Time without any frame after which the server closes the connection.
    pub idle: Duration,
    /// Backoff after a failed connect, doubled after each further one up to a quarter of a second;
    /// calls in between fail with the same error.
    pub backoff: Duration,
    /// Grace period of the metadata service: after the last connection of a client has ended, until
    /// the client's open files count as closed; and after a start of the service, until clients
    /// that did not report open files count as having none.
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

/// Everything that a service or client needs from outside its process.
#[derive(Clone)]
pub struct Env {
    /// Byte streams.
    pub network: Arc<dyn Network>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Timeouts and intervals.
    pub timing: Timing,
    /// The processors of this machine.
    pub processors: Arc<dyn Processors>,
}

impl Env {
    /// The network, local sockets, clock and randomness of this machine. Its processors are left to
    /// the kernel.
    pub fn system() -> Env {
        Env {
            network: Arc::new(SystemNetwork),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            timing: Timing::default(),
            processors: Arc::new(UnmanagedProcessors),
        }
    }

    /// A random number, e.g. to name this client.
    pub fn random_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// The system's time of day.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

/// The system's randomness.
#[derive(Clone, Copy, Debug)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, out: &mut [u8]) {
        getrandom::fill(out).expect("the system has randomness");
    }
}
