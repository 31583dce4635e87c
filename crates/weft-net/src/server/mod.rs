//! The serving side: accepts, proves, and hands each call to a [`Service`].

mod call;
mod session;
mod wire;
mod young;

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use weft_proto::Kind;

pub use call::{Caller, Chunk, Gone, Parcel, Payload, Reply, Served};

use session::Accepting;

use crate::counters::Counters;
use crate::env::{Accepted, Env, Listener};
use crate::handshake::{Identity, Peer};
use crate::landing::Landing;
use crate::pool::BufferPool;

/// What one connection may cost, and how many there may be.
///
/// Payload in memory, received and not released, is per connection at most
/// `window + calls ·` [`CALL_WINDOW`](weft_proto::limits::CALL_WINDOW).
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Payload bytes that calls together may have sent beyond each one's own window and not yet released.
    pub window: u32,
    /// Calls a client may have in flight, at least 1.
    pub calls: u32,
    /// Connections; more are turned away.
    pub connections: usize,
}

/// Connections beyond the last place that are told so at a time; others are closed without a word.
const TURNED_AWAY: usize = 16;

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            window: 8 << 20,
            calls: 256,
            connections: 1024,
        }
    }
}

/// What serves calls.
pub trait Service: Send + Sync + 'static {
    /// Serves one call; answers through [`Served::reply`]. Runs to its end also when the connection is lost or
    /// the call cancelled: look at [`Reply::cancelled`] where there is much left to do.
    fn serve(self: Arc<Self>, call: Served) -> BoxFuture<'static, ()>;
    /// Whether calls of a kind mostly wait once or twice and are done: such are begun in the task of their connection, beside one
    /// another. Those that are not say so ([`Reply::long`]).
    fn is_brief(&self, kind: Kind) -> bool;
    /// Where large payloads are received.
    fn landing(&self) -> Option<Arc<dyn Landing>> {
        None
    }
    /// Which incarnation of what it serves acknowledges changes from now on; 0: it does not say.
    fn incarnation(&self) -> u64 {
        0
    }
    /// A connection was proven.
    fn opened(&self, peer: &Arc<Peer>);
    /// A connection has ended; calls of it may still be running.
    fn closed(&self, peer: &Arc<Peer>);
}

/// Accepts connections until `stop` completes, then closes them all. Calls being served then go on to their end.
#[allow(clippy::too_many_arguments)] // one call site per endpoint; a builder would only rename them
pub async fn serve(
    env: Env,
    mut listener: Box<dyn Listener>,
    identity: Identity,
    server: Option<u32>,
    bounds: Bounds,
    service: Arc<dyn Service>,
    counters: Arc<Counters>,
    stop: impl Future<Output = ()>,
) {
    assert!(bounds.calls > 0, "a connection without calls serves nobody");
    let identity = Arc::new(identity);
    let places = Arc::new(Semaphore::new(bounds.connections));
    let antechamber = Arc::new(Semaphore::new(TURNED_AWAY));
    let pool = BufferPool::default();
    let local: Arc<str> = listener.local().unwrap_or_default().into();
    let mut connections = tokio::task::JoinSet::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let Accepted {
            read,
            write,
            peer: address,
            local: came_locally,
        } = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                // Out of descriptors, most likely: those in use go on, and one will be free.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(env.timing.backoff).await;
                continue;
            }
        };
        let accepting = Accepting {
            env: env.clone(),
            identity: identity.clone(),
            server,
            bounds,
            service: service.clone(),
            counters: counters.clone(),
            pool: pool.clone(),
            local: local.clone(),
            came_locally,
        };
        if let Ok(place) = places.clone().try_acquire_owned() {
            connections.spawn(async move {
                accepting.run((read, write), address).await;
                drop(place);
            });
            continue;
        }
        tracing::warn!(%address, limit = bounds.connections, "refused: too many connections");
        if let Ok(place) = antechamber.clone().try_acquire_owned() {
            connections.spawn(async move {
                accepting.turn_away((read, write)).await;
                drop(place);
            });
        }
    }
    drop(listener);
    connections.shutdown().await;
}
