//! A namespace that is older than its servers remember, and servers that are refused until the
//! administrator accepts them.
//!
//! I/O servers note the position up to which the namespace was durable. A server with a note that
//! the namespace lacks reports it with each heartbeat. From then on the service answers only
//! servers, and queries about the volume, until the administrator has accepted the older namespace.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_meta::{MetaError, Namespace};
use weft_proto::meta::{AcceptRollbackReply, AcceptRollbackRequest, HeartbeatRequest};
use weft_proto::{Code, Failure, Kind};

use crate::limits::INEXACT_BATCH_INODES;
use crate::position;

/// Marks the sizes of all files with cells as inexact: their servers may hold more, or less, than
/// an older namespace knows.
pub(super) async fn mark_sizes_inexact(namespace: &Namespace) -> Result<(), MetaError> {
    let mut from = Some(0);
    while let Some(first) = from {
        from = namespace.doubt_sizes(first, INEXACT_BATCH_INODES)?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Whether the namespace is an older copy.
#[derive(Default)]
pub(super) struct Rollback {
    found: AtomicBool,
    accepted: AtomicBool,
}

impl Rollback {
    /// Compares the namespace with the position that a server noted.
    pub(super) fn compare(&self, namespace: &Namespace, request: &HeartbeatRequest) {
        let Some(at) = request.service else { return };
        let at = position::from_wire(&at);
        if self.accepted.load(Ordering::Acquire) || namespace.still_has(at).is_ok() {
            return;
        }
        if !self.found.swap(true, Ordering::AcqRel) {
            tracing::error!(
                server = request.id,
                "the namespace is older than what this server observed of it: nothing is served; put the newest copy of the metadata back, or \
                 take this one by `weft server accept-rollback metadata`"
            );
        }
    }

    /// Refuses calls that an older namespace must not serve.
    pub(super) fn check(&self, kind: Kind) -> Result<(), Failure> {
        let served = matches!(
            kind,
            Kind::Heartbeat
                | Kind::ServerMap
                | Kind::ListClients
                | Kind::AcceptRollback
                | Kind::ChangeReplicas
        );
        if served || !self.found.load(Ordering::Acquire) {
            return Ok(());
        }
        let what = "the metadata service went back: its folder is older than what the servers observed of it. Put the newest copy of \
                    the folder back, or take this one by `weft server accept-rollback metadata`: names and small files that were changed since \
                    are lost then, and `weft fsck` finds cells of files without names";
        Err(Failure::new(Code::RolledBack, what))
    }

    pub(super) fn is_found(&self) -> bool {
        self.found.load(Ordering::Acquire)
    }

    /// The administrator accepts a server, or the namespace, as it is.
    pub(super) fn accept(
        &self,
        namespace: &Namespace,
        request: AcceptRollbackRequest,
    ) -> Result<AcceptRollbackReply, MetaError> {
        let refused = if let Some(server) = request.server {
            namespace.accept_rollback(server)?
        } else {
            self.accepted.store(true, Ordering::Release);
            self.found.swap(false, Ordering::AcqRel)
        };
        Ok(AcceptRollbackReply { refused })
    }
}
