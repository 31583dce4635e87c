//! The interface of a service.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use weft_proto::Kind;

use super::call::Served;
use crate::buffers::ReceiveBuffers;
use crate::identity::Peer;

/// Serves the calls of all connections.
pub trait Service: Send + Sync + 'static {
    /// Serves one call; answers through [`Served::reply`].
    ///
    /// # Cancellation
    /// The future runs to completion even if the connection is lost or the call is cancelled: check
    /// [`Reply::cancelled`](super::Reply::cancelled) before long work.
    fn serve(self: Arc<Self>, call: Served) -> BoxFuture<'static, ()>;
    /// Whether calls of a kind usually finish after one or two waits. Such calls run concurrently
    /// in the task of their connection; a longer one must call
    /// [`Reply::long`](super::Reply::long).
    fn is_brief(&self, kind: Kind) -> bool;
    /// The service's own buffers for large payloads, if it has any.
    fn receive_buffers(&self) -> Option<Arc<dyn ReceiveBuffers>> {
        None
    }
    /// The incarnation of the store or namespace that acknowledges changes from now on; 0: unknown.
    fn incarnation(&self) -> u64 {
        0
    }
    /// A connection was authenticated.
    fn opened(&self, peer: &Arc<Peer>);
    /// A connection has ended; its calls may still be running.
    fn closed(&self, peer: &Arc<Peer>);
}
