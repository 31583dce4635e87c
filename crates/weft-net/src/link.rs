//! One peer that is connected to when needed and found again when lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use weft_proto::Code;

use crate::client::Connection;
use crate::counters::Counters;
use crate::env::Env;
use crate::error::ConnectError;
use crate::handshake::Identity;
use crate::pool::BufferPool;

/// A peer at an address that may change. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    env: Env,
    identity: Identity,
    /// The server id that must answer, if an I/O server is meant.
    expected: Option<u32>,
    pool: BufferPool,
    counters: Arc<Counters>,
    address: Mutex<String>,
    /// When a caller last wanted a connection.
    asked: Mutex<Instant>,
    opened: AtomicU64,
    current: tokio::sync::Mutex<Current>,
}

/// A link is connected, was never used, or away. While it is away one task tries to connect, and
/// callers hear at once why the last try failed: a peer that takes no connections costs a caller
/// nothing but the first time. Where the machine refuses at once, as it does when no process
/// listens, a caller tries itself, so that a peer that was started again is there for the next
/// call.
#[derive(Default)]
enum Current {
    /// Nobody has tried, or nobody has asked for long.
    #[default]
    Idle,
    Connected {
        address: String,
        connection: Connection,
        /// A caller was told that it is new.
        told: bool,
    },
    Away {
        address: String,
        error: ConnectError,
        /// When the last try ended, if it was refused within [`AT_ONCE`].
        refused: Option<Instant>,
    },
}

/// A refusal within so long costs a caller nothing.
const AT_ONCE: Duration = Duration::from_millis(20);
/// Between two tries of callers that are refused at once.
const TRY_AGAIN: Duration = Duration::from_millis(2);
/// Between two tries to reach a peer that is away, after the first ones.
const TRY_EVERY: Duration = Duration::from_millis(250);
/// Nobody has asked for so long: the peer is not looked for any more.
const TRY_FOR: Duration = Duration::from_secs(30);
/// How often a peer is asked that has no place for another connection, and the longest pause
/// between two tries: some two seconds in all.
const BUSY_TRIES: u32 = 10;
const BUSY_PAUSE: Duration = Duration::from_millis(250);

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
        Link(Arc::new(Inner {
            env,
            identity,
            expected,
            pool,
            counters,
            address: Mutex::new(address),
            asked: Mutex::new(Instant::now()),
            opened: AtomicU64::new(0),
            current: tokio::sync::Mutex::default(),
        }))
    }

    /// Where the peer is looked for.
    pub fn address(&self) -> String {
        self.0.address()
    }

    /// Looks for the peer elsewhere from now on; calls under way on the old connection go on.
    pub fn set_address(&self, address: &str) {
        let mut place = self
            .0
            .address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        address.clone_into(&mut place);
    }

    /// How many connections were opened so far. It grows when a peer that was away is back.
    pub fn opened(&self) -> u64 {
        self.0.opened.load(Ordering::Acquire)
    }

    /// The connection, opened if there is none. The flag says that it is new: no call before was
    /// given it.
    ///
    /// # Errors
    /// [`ConnectError`]; the one of the last try, at once, while a peer that could not be reached
    /// is tried again beside the callers. It is, at bounded intervals, until nobody has asked for
    /// 30 seconds.
    /// # Cancellation
    /// Safe: callers that wait for the same connection go on.
    pub async fn connection(&self) -> Result<(Connection, bool), ConnectError> {
        let inner = &self.0;
        inner.note_asked();
        let mut current = inner.current.lock().await;
        let here = inner.address();
        match &mut *current {
            Current::Connected {
                address,
                connection,
                told,
            } if *address == here && connection.lost().is_none() => {
                let new = !std::mem::replace(told, true);
                return Ok((connection.clone(), new));
            }
            Current::Away {
                address,
                error,
                refused,
            } if *address == here && refused.is_none_or(|when| when.elapsed() < TRY_AGAIN) => {
                return Err(error.clone());
            }
            _ => {}
        }
        // A peer that has just fallen silent has made its callers wait already.
        let timing = &inner.env.timing;
        let (wait, looking) = match std::mem::take(&mut *current) {
            Current::Connected { .. } => (timing.ping.min(timing.connect), false),
            Current::Away { address, .. } => (timing.ping.min(timing.connect), address == here),
            Current::Idle => (timing.connect * 2, false),
        };
        let began = Instant::now();
        let opened = tokio::time::timeout(wait, inner.open(&here)).await;
        match opened.unwrap_or_else(|_| Err(Inner::timeout(&here, wait))) {
            Ok(connection) => {
                *current = Current::Connected {
                    address: here,
                    connection: connection.clone(),
                    told: true,
                };
                Ok((connection, true))
            }
            Err(error) => {
                *current = Current::Away {
                    address: here.clone(),
                    error: error.clone(),
                    refused: refused(began),
                };
                if !looking {
                    tokio::spawn(look_for(Arc::downgrade(inner), here));
                }
                Err(error)
            }
        }
    }
}

impl Inner {
    fn address(&self) -> String {
        let address = self.address.lock();
        address.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn timeout(address: &str, waited: Duration) -> ConnectError {
        let address = address.to_owned();
        ConnectError::Timeout { address, waited }
    }

    fn note_asked(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_asked(&self) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.elapsed() < TRY_FOR
    }

    async fn open(&self, address: &str) -> Result<Connection, ConnectError> {
        let mut pause = self.env.timing.backoff;
        let mut tries = 1;
        let connection = loop {
            let (pool, counters) = (self.pool.clone(), self.counters.clone());
            let opened = Connection::open(&self.env, &self.identity, address, pool, counters);
            match opened.await {
                // Its place was given to a newer one before it could prove the key: so many come
                // that another try soon has one.
                Err(ConnectError::Refused { failure, .. })
                    if failure.code() == Code::Busy && tries < BUSY_TRIES =>
                {
                    tries += 1;
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(BUSY_PAUSE);
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

/// Now, if a try that began then was refused at once.
fn refused(began: Instant) -> Option<Instant> {
    let now = Instant::now();
    (now.duration_since(began) < AT_ONCE).then_some(now)
}

/// Tries to reach a peer that is away, until it is back, is looked for elsewhere, or nobody asks
/// any more.
async fn look_for(link: Weak<Inner>, address: String) {
    let mut pause = link
        .upgrade()
        .map_or(TRY_EVERY, |link| link.env.timing.backoff);
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(TRY_EVERY.max(pause));
        let Some(link) = link.upgrade() else { return };
        let began = Instant::now();
        let found = if link.is_asked() {
            link.open(&address).await.map(Some)
        } else {
            Ok(None)
        };
        let mut current = link.current.lock().await;
        match &mut *current {
            Current::Away {
                address: away,
                error,
                refused: when,
            } if *away == address => match found {
                Ok(Some(connection)) => {
                    *current = Current::Connected {
                        address,
                        connection,
                        told: false,
                    };
                    return;
                }
                Ok(None) => {
                    *current = Current::Idle;
                    return;
                }
                Err(now) => (*error, *when) = (now, refused(began)),
            },
            // A caller has been quicker, or the peer is elsewhere.
            _ => return,
        }
    }
}
