//! A namespace that is older than what I/O servers heard of it, and servers that are refused until
//! the administrator takes them in.
//!
//! Servers remember up to where the namespace was durable. One that is asked to work for a
//! namespace which lacks that says so with each heartbeat; from then on the service answers nobody
//! but servers, and those who ask how the volume is, until the administrator has accepted that the
//! namespace went back.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_kv::Position;
use weft_meta::{MetaError, Namespace};
use weft_proto::meta::{AcceptRollbackReply, AcceptRollbackRequest, HeartbeatRequest};
use weft_proto::{Code, Failure, Kind};

/// Inodes whose sizes are made inexact at a time.
const INODES: usize = 1000;

/// Makes all sizes of files with cells inexact: their servers may hold more, or less, than a
/// namespace that went back knows.
pub(super) async fn doubt_sizes(namespace: &Namespace) -> Result<(), MetaError> {
    let mut from = Some(0);
    while let Some(first) = from {
        from = namespace.doubt_sizes(first, INODES)?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Whether the namespace went back.
#[derive(Default)]
pub(super) struct Rollback {
    found: AtomicBool,
    accepted: AtomicBool,
}

impl Rollback {
    /// A server has told what it heard of the namespace.
    pub(super) fn heard(&self, namespace: &Namespace, request: &HeartbeatRequest) {
        let Some(at) = request.service else { return };
        let at = Position {
            incarnation: at.incarnation,
            sequence: at.sequence,
        };
        if self.accepted.load(Ordering::Acquire) || namespace.still_has(at).is_ok() {
            return;
        }
        if !self.found.swap(true, Ordering::AcqRel) {
            tracing::error!(
                server = request.id,
                "the namespace is older than what this server heard of it: nothing is served; put the newest copy of the metadata back, or \
                 take this one by `weft server accept-rollback metadata`"
            );
        }
    }

    /// Refuses what must not be served from a namespace that went back.
    pub(super) fn check(&self, kind: Kind) -> Result<(), Failure> {
        let served = matches!(
            kind,
            Kind::Heartbeat | Kind::ServerMap | Kind::ListClients | Kind::AcceptRollback
        );
        if served || !self.found.load(Ordering::Acquire) {
            return Ok(());
        }
        let what = "the metadata service went back: its folder is older than what the servers heard of it. Put the newest copy of \
                    the folder back, or take this one by `weft server accept-rollback metadata`: names and small files that were changed since \
                    are lost then, and `weft fsck` finds cells of files without names";
        Err(Failure::new(Code::RolledBack, what))
    }

    pub(super) fn is_found(&self) -> bool {
        self.found.load(Ordering::Acquire)
    }

    /// The administrator takes a server, or the namespace, as it is.
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
