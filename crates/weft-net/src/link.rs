//! One peer that is connected to when needed and found again when lost.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

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
    current: tokio::sync::Mutex<Current>,
}

#[derive(Default)]
struct Current {
    connection: Option<(String, Connection)>,
    failed: Option<(Instant, String, ConnectError)>,
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
        let address = Mutex::new(address);
        let current = tokio::sync::Mutex::default();
        Link(Arc::new(Inner {
            env,
            identity,
            expected,
            pool,
            counters,
            address,
            current,
        }))
    }

    /// Where the peer is looked for.
    pub fn address(&self) -> String {
        self.0
            .address
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Looks for the peer elsewhere from now on; calls under way on the old connection go on.
    pub fn set_address(&self, address: &str) {
        address.clone_into(
            &mut self
                .0
                .address
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// The connection, opened if there is none. The flag says that it was opened by this call.
    ///
    /// # Errors
    /// [`ConnectError`]; the same one again without a try during [`Timing::backoff`](crate::Timing::backoff).
    /// # Cancellation
    /// Safe: callers that wait for the same connection go on.
    pub async fn connection(&self) -> Result<(Connection, bool), ConnectError> {
        let mut current = self.0.current.lock().await;
        let address = self.address();
        if let Some((there, connection)) = &current.connection
            && *there == address
            && connection.lost().is_none()
        {
            return Ok((connection.clone(), false));
        }
        if let Some((when, there, error)) = &current.failed
            && when.elapsed() < self.0.env.timing.backoff
            && *there == address
        {
            return Err(error.clone());
        }
        current.connection = None;
        let inner = &self.0;
        let opened = Connection::open(
            &inner.env,
            &inner.identity,
            &address,
            inner.pool.clone(),
            inner.counters.clone(),
        );
        let checked = opened.await.and_then(|connection| match inner.expected {
            Some(expected) if connection.server() != Some(expected) => {
                Err(ConnectError::WrongServer {
                    address: address.clone(),
                    found: connection.server(),
                    expected,
                })
            }
            _ => Ok(connection),
        });
        match checked {
            Ok(connection) => {
                current.failed = None;
                current.connection = Some((address, connection.clone()));
                Ok((connection, true))
            }
            Err(error) => {
                current.failed = Some((Instant::now(), address, error.clone()));
                Err(error)
            }
        }
    }
}
