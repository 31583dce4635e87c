//! The accept loop.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::Arc;

use tokio::task::JoinSet;

use super::connection::{AcceptedConnection, Endpoint};
use super::service::Service;
use crate::admission::{Admission, Bounds, PendingSlot};
use crate::buffers::BufferPool;
use crate::counters::Counters;
use crate::env::Env;
use crate::identity::Identity;
use crate::limits::TRIM_INTERVAL;
use crate::log_limit::LogLimit;
use crate::transport::{Accepted, Listener};

/// Accepts connections until `stop` completes, then closes them all. Calls being served then run to
/// their end.
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
    let endpoint = Arc::new(Endpoint {
        identity,
        server,
        admission: Admission::new(bounds),
        service,
        counters,
        pool: BufferPool::default(),
        local: listener.local().unwrap_or_default().to_owned(),
        refused: LogLimit::default(),
        tampered: LogLimit::default(),
        env,
    });
    let accept_errors = LogLimit::default();
    let mut trimming = tokio::time::interval(TRIM_INTERVAL);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            _ = trimming.tick() => {
                endpoint.pool.trim();
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely the process is out of descriptors: open connections go on, and one of
                // them will free some.
                if let Some(suppressed) = accept_errors.pass() {
                    let left_out = suppressed.field();
                    tracing::warn!(%error, left_out, "cannot accept a connection");
                }
                tokio::time::sleep(endpoint.env.timing.backoff).await;
                continue;
            }
        };
        let slot = match slot(&endpoint.admission, &accepted.peer, stop.as_mut()).await {
            ControlFlow::Continue(slot) => slot,
            ControlFlow::Break(()) => break,
        };
        connections.spawn(serve_connection(endpoint.clone(), accepted, slot));
    }
    drop(listener);
    connections.shutdown().await;
}

async fn serve_connection(endpoint: Arc<Endpoint>, accepted: Accepted, slot: PendingSlot) {
    let Accepted {
        read,
        write,
        peer: address,
        local: came_locally,
        process,
    } = accepted;
    let connection = AcceptedConnection {
        endpoint,
        address,
        came_locally,
        process,
    };
    connection.run(read, write, slot).await;
}

/// A slot for a connection that was just accepted; `Break` when the server stops while the
/// connection waits for one.
async fn slot(
    admission: &Admission,
    address: &str,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> ControlFlow<(), PendingSlot> {
    loop {
        match admission.accept(address) {
            Ok(slot) => return ControlFlow::Continue(slot),
            Err(wait) => tokio::select! {
                biased;
                () = &mut stop => return ControlFlow::Break(()),
                () = tokio::time::sleep(wait) => {}
            },
        }
    }
}
