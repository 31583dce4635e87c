//! A connection to one peer, opened when needed and reopened when lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_proto::Code;

use crate::buffers::BufferPool;
use crate::client::Connection;
use crate::counters::Counters;
use crate::env::Env;
use crate::error::ConnectError;
use crate::identity::Identity;
use crate::limits::{
    BUSY_BACKOFF_MAX, BUSY_TRIES, FAST_REFUSAL, FAST_RETRY_INTERVAL, RECONNECT_IDLE_TIMEOUT,
    RECONNECT_INTERVAL_MAX,
};

/// A peer at an address that may change. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct Link(Arc<SharedLink>);

struct SharedLink {
    env: Env,
    identity: Identity,
    /// The id of the I/O server that must answer; `None`: any server.
    expected: Option<u32>,
    pool: BufferPool,
    counters: Arc<Counters>,
    address: Mutex<String>,
    /// When a caller last requested a connection.
    requested: Mutex<Instant>,
    opened: AtomicU64,
    state: tokio::sync::Mutex<LinkState>,
}

/// While a peer is unreachable one task tries to connect, and callers get the error of its last try
/// at once: an unreachable peer delays only the first caller. Where the peer's machine refuses
/// fast, as it does when no process listens, callers try themselves, so that the next call finds a
/// peer that was started again.
#[derive(Default)]
enum LinkState {
    /// Never used, or not for long.
    #[default]
    Idle,
    Connected {
        address: String,
        connection: Connection,
        /// A caller was given it.
        used: bool,
    },
    Unreachable {
        address: String,
        error: ConnectError,
        /// When the last try ended, if it was refused within [`FAST_REFUSAL`].
        refused: Option<Instant>,
    },
}

impl Link {
    /// A link that connects at its first use.
    pub fn new(
        env: Env,
        identity: Identity,
        address: String,
        expected: Option<u32>,
        pool: BufferPool,
        counters: Arc<Counters>,
    ) -> Link {
        Link(Arc::new(SharedLink {
            env,
            identity,
            expected,
            pool,
            counters,
            address: Mutex::new(address),
            requested: Mutex::new(Instant::now()),
            opened: AtomicU64::new(0),
            state: tokio::sync::Mutex::default(),
        }))
    }

    /// The address of the peer.
    pub fn address(&self) -> String {
        self.0.address()
    }

    /// Connects to another address from now on; calls in flight on the old connection go on.
    pub fn set_address(&self, address: &str) {
        address.clone_into(&mut self.0.address.lock());
    }

    /// How many connections were opened so far. Grows when a lost peer is reachable again.
    pub fn opened(&self) -> u64 {
        self.0.opened.load(Ordering::Acquire)
    }

    /// The connection, opened if there is none. The flag says that it is new: no caller was given
    /// it before.
    ///
    /// # Errors
    /// [`ConnectError`]; that of the last try, at once, while a background task tries to reach the
    /// peer. It tries at bounded intervals until no caller has requested a connection for 30
    /// seconds.
    /// # Cancellation
    /// Safe: callers that wait for the same connection go on.
    pub async fn connection(&self) -> Result<(Connection, bool), ConnectError> {
        let link = &self.0;
        link.note_request();
        let mut state = link.state.lock().await;
        let here = link.address();
        match &mut *state {
            LinkState::Connected {
                address,
                connection,
                used,
            } if *address == here && connection.lost().is_none() => {
                let new = !std::mem::replace(used, true);
                return Ok((connection.clone(), new));
            }
            LinkState::Unreachable {
                address,
                error,
                refused,
            } if *address == here
                && refused.is_none_or(|when| when.elapsed() < FAST_RETRY_INTERVAL) =>
            {
                return Err(error.clone());
            }
            LinkState::Idle | LinkState::Connected { .. } | LinkState::Unreachable { .. } => {}
        }
        // A peer that has just fallen silent has made its callers wait already.
        let timing = &link.env.timing;
        let (wait, reconnecting) = match std::mem::take(&mut *state) {
            LinkState::Connected { .. } => (timing.ping.min(timing.connect), false),
            LinkState::Unreachable { address, .. } => {
                (timing.ping.min(timing.connect), address == here)
            }
            LinkState::Idle => (timing.connect * 2, false),
        };
        let began = Instant::now();
        let opened = tokio::time::timeout(wait, link.open(&here)).await;
        match opened.unwrap_or_else(|_| Err(SharedLink::timeout(&here, wait))) {
            Ok(connection) => {
                *state = LinkState::Connected {
                    address: here,
                    connection: connection.clone(),
                    used: true,
                };
                Ok((connection, true))
            }
            Err(error) => {
                *state = LinkState::Unreachable {
                    address: here.clone(),
                    error: error.clone(),
                    refused: fast_refusal(began),
                };
                if !reconnecting {
                    tokio::spawn(reconnect(Arc::downgrade(link), here));
                }
                Err(error)
            }
        }
    }
}

impl SharedLink {
    fn address(&self) -> String {
        self.address.lock().clone()
    }

    fn timeout(address: &str, waited: Duration) -> ConnectError {
        let address = address.to_owned();
        ConnectError::Timeout { address, waited }
    }

    fn note_request(&self) {
        *self.requested.lock() = Instant::now();
    }

    fn is_requested(&self) -> bool {
        self.requested.lock().elapsed() < RECONNECT_IDLE_TIMEOUT
    }

    async fn open(&self, address: &str) -> Result<Connection, ConnectError> {
        let mut backoff = self.env.timing.backoff;
        let mut tries = 1;
        let connection = loop {
            let (pool, counters) = (self.pool.clone(), self.counters.clone());
            let opened = Connection::open(&self.env, &self.identity, address, pool, counters);
            match opened.await {
                // The server has evicted the connection from its slot before the handshake ended.
                // So many connections come that another try soon gets a slot.
                Err(ConnectError::Refused { failure, .. })
                    if failure.code() == Code::Busy && tries < BUSY_TRIES =>
                {
                    tries += 1;
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(BUSY_BACKOFF_MAX);
                }
                opened => break opened?,
            }
        };
        match self.expected {
            Some(expected) if connection.server() != Some(expected) => {
                Err(ConnectError::WrongServer {
                    address: address.to_owned(),
                    found: connection.server(),
                    expected,
                })
            }
            _ => {
                self.opened.fetch_add(1, Ordering::AcqRel);
                Ok(connection)
            }
        }
    }
}

/// Now, if a try that began then was refused fast.
fn fast_refusal(began: Instant) -> Option<Instant> {
    let now = Instant::now();
    (now.duration_since(began) < FAST_REFUSAL).then_some(now)
}

/// Tries to reach an unreachable peer, until it answers, has another address, or no caller has
/// requested a connection for [`RECONNECT_IDLE_TIMEOUT`].
async fn reconnect(link: Weak<SharedLink>, address: String) {
    let mut backoff = link
        .upgrade()
        .map_or(RECONNECT_INTERVAL_MAX, |link| link.env.timing.backoff);
    loop {
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(RECONNECT_INTERVAL_MAX.max(backoff));
        let Some(link) = link.upgrade() else { return };
        let began = Instant::now();
        let found = if link.is_requested() {
            link.open(&address).await.map(Some)
        } else {
            Ok(None)
        };
        let mut state = link.state.lock().await;
        match &mut *state {
            LinkState::Unreachable {
                address: unreachable,
                error,
                refused,
            } if *unreachable == address => match found {
                Ok(Some(connection)) => {
                    *state = LinkState::Connected {
                        address,
                        connection,
                        used: false,
                    };
                    return;
                }
                Ok(None) => {
                    *state = LinkState::Idle;
                    return;
                }
                Err(now) => (*error, *refused) = (now, fast_refusal(began)),
            },
            // A caller was faster, or the address has changed.
            LinkState::Idle | LinkState::Connected { .. } | LinkState::Unreachable { .. } => return,
        }
    }
}
