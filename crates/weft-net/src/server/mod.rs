//! The serving side: accepts, proves, and hands each call to a [`Service`].

mod antechamber;
mod call;
mod session;
mod windows;
mod wire;
mod young;

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use weft_proto::Kind;

pub use call::{Caller, Chunk, Gone, Parcel, Payload, Reply, Served};

pub(crate) use antechamber::Guest;
pub(crate) use windows::{Granted, Windows};

use antechamber::Antechamber;
use session::{Accepting, Hall};

use crate::counters::Counters;
use crate::env::{Accepted, Env, Listener};
use crate::handshake::{Identity, Peer};
use crate::landing::Landing;
use crate::pool::{BufferPool, TIDYING};
use crate::quiet::Quiet;

/// What one connection may cost, and how many there may be.
///
/// Payload in memory, received or being received and not released, is per connection at most
/// `window + calls ·` [`CALL_WINDOW`](weft_proto::limits::CALL_WINDOW), and the windows of all are
/// at most `windows`.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Payload bytes that calls together may have sent beyond each one's own window and not yet
    /// released.
    pub window: u32,
    /// The windows of all connections together; with many of them, each is granted less than
    /// `window`.
    pub windows: u64,
    /// Calls a client may have in flight, at least 1.
    pub calls: u32,
    /// Proven connections; more are turned away.
    pub connections: usize,
    /// Connections that have not proven the key, at least 1; of more, the least welcome is closed.
    pub unproven: usize,
}

/// Descriptors that a process keeps for what is no accepted connection: the store's files and
/// disks, the engine's tables, connections to others.
const RESERVE: u64 = 512;
/// Descriptors of one connection: a local socket has a second one to hear of room by.
const EACH: u64 = 2;

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            window: 8 << 20,
            windows: 128 << 20,
            calls: 256,
            connections: 1024,
            unproven: 128,
        }
    }
}

impl Bounds {
    /// These, with so few connections that a process which may have `descriptors` open keeps a
    /// reserve: half of them, where they are few.
    #[must_use]
    pub fn within(self, descriptors: u64) -> Bounds {
        let free = descriptors - RESERVE.min(descriptors / 2);
        let places = usize::try_from(free / EACH).unwrap_or(usize::MAX);
        let unproven = self.unproven.min((places / 4).max(1));
        Bounds {
            unproven,
            connections: self.connections.min((places - unproven.min(places)).max(1)),
            ..self
        }
    }
}

/// What serves calls.
pub trait Service: Send + Sync + 'static {
    /// Serves one call; answers through [`Served::reply`]. Runs to its end also when the connection
    /// is lost or the call cancelled: look at [`Reply::cancelled`] where there is much left to do.
    fn serve(self: Arc<Self>, call: Served) -> BoxFuture<'static, ()>;
    /// Whether calls of a kind mostly wait once or twice and are done: such are begun in the task
    /// of their connection, beside one another. Those that are not say so ([`Reply::long`]).
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

/// Accepts connections until `stop` completes, then closes them all. Calls being served then go on
/// to their end.
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
    let hall = Arc::new(Hall {
        identity,
        server,
        bounds,
        service,
        counters,
        pool: BufferPool::default(),
        local: listener.local().unwrap_or_default().to_owned(),
        places: Arc::new(Semaphore::new(bounds.connections)),
        windows: Windows::new(bounds.windows),
        refused: Quiet::default(),
        tampered: Quiet::default(),
        env: env.clone(),
    });
    let antechamber = Antechamber::new(bounds.unproven);
    let not_accepted = Quiet::default();
    let mut tidying = tokio::time::interval(TIDYING);
    let mut connections = tokio::task::JoinSet::new();
    tokio::pin!(stop);
    'accepting: loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            _ = tidying.tick() => {
                hall.pool.tidy();
                continue;
            }
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
                if let Some(left_out) = not_accepted.pass() {
                    let left_out = left_out.field();
                    tracing::warn!(%error, left_out, "cannot accept a connection");
                }
                tokio::time::sleep(env.timing.backoff).await;
                continue;
            }
        };
        let guest = loop {
            match antechamber.admit(&address) {
                Ok(guest) => break guest,
                Err(wait) => tokio::select! {
                    biased;
                    () = &mut stop => break 'accepting,
                    () = tokio::time::sleep(wait) => {}
                },
            }
        };
        let hall = hall.clone();
        let accepting = Accepting {
            hall,
            address,
            came_locally,
        };
        connections.spawn(accepting.run((read, write), guest));
    }
    drop(listener);
    connections.shutdown().await;
}
