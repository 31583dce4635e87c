//! From an operation to its reply: run it, wait for the holders of names, sync, notify.

use tokio::time::Instant;
use weft_meta::{MetaError, mutates};
use weft_net::Served;
use weft_proto::stamp::Stamp;
use weft_proto::{Call, Code, Failure, Kind};

use super::MetaService;
use crate::failure;
use crate::metrics::Stage;
use crate::position;

/// The sync that an operation needs before it is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// None.
    None,
    /// A sync before the reply, or soon after it if the client is lazy.
    Soon,
    /// A sync before the reply.
    Now,
}

impl Durability {
    pub(super) fn soon_if(committed: bool) -> Durability {
        if committed {
            Durability::Soon
        } else {
            Durability::None
        }
    }
}

impl MetaService {
    /// Runs one operation; answers when its changes, if its kind makes any, may be acknowledged.
    pub(in crate::meta) async fn answer<C: Call>(
        &self,
        call: Served,
        operation: impl Fn(&C) -> Result<C::Reply, MetaError>,
    ) {
        let durability = Durability::soon_if(mutates(call.kind));
        self.answer_with(call, |request| {
            operation(request).map(|reply| (reply, durability))
        })
        .await;
    }

    /// As [`MetaService::answer`], for an operation that returns the durability it needs.
    pub(in crate::meta) async fn answer_with<C: Call>(
        &self,
        call: Served,
        operation: impl Fn(&C) -> Result<(C::Reply, Durability), MetaError>,
    ) {
        let started = Instant::now();
        let request = match call.request::<C>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let mut tries = 0;
        let result = loop {
            match operation(&request) {
                Ok(done) => break Ok(done),
                Err(error) => {
                    if let Err(failure) = self.wait_for_names(error, &mut tries).await {
                        break Err(failure);
                    }
                }
            }
        };
        self.finish::<C>(call, started, result).await;
    }

    /// Answers with the outcome of an operation, when its commit may be acknowledged.
    pub(in crate::meta) async fn finish<C: Call>(
        &self,
        call: Served,
        started: Instant,
        result: Result<(C::Reply, Durability), Failure>,
    ) {
        let kind = call.kind;
        self.notify_watchers();
        self.wait_for_leases(call.peer.client).await;
        if let Ok((_, durability)) = &result
            && let Err(failure) = self.make_durable(*durability, call.peer.client, kind).await
        {
            return call.reply.fail(&failure);
        }
        let frees = matches!(
            kind,
            Kind::Unlink | Kind::Rename | Kind::Report | Kind::StoreInline | Kind::Detach
        );
        if result.is_ok() && frees {
            self.new_intents.notify_one();
        }
        let ends = matches!(kind, Kind::Report | Kind::Detach | Kind::Reassert);
        if ends && self.namespace.has_unsettled() {
            self.unknown_sizes.notify_one();
        }
        if result.is_ok() && (frees || kind == Kind::SetQuota) && self.namespace.limits_growth() {
            self.freed.notify_one();
        }
        match result {
            Ok((reply, Durability::Soon)) => call.reply.done_at(&reply, &self.stamp()),
            Ok((reply, _)) => call.reply.done(&reply),
            Err(failure) => {
                tracing::debug!(client = call.peer.client, call = call.id, kind = kind.name(), error = %failure.message, "refused");
                call.reply.fail(&failure);
            }
        }
        self.metrics.stage(kind, Stage::Total, started.elapsed());
    }

    /// The position of a change, for its reply: taken after the change.
    pub(in crate::meta) fn stamp(&self) -> Stamp {
        Stamp {
            changed: self.namespace.position().map(position::to_wire),
            durable: self.group.durable(),
        }
    }

    /// Returns when a commit may be acknowledged to this client.
    pub(in crate::meta) async fn make_durable(
        &self,
        durability: Durability,
        client: u64,
        kind: Kind,
    ) -> Result<(), Failure> {
        match durability {
            Durability::None => Ok(()),
            Durability::Soon if self.sessions.is_lazy(client) => {
                self.unsynced.notify_one();
                Ok(())
            }
            Durability::Soon | Durability::Now => self.sync_for(kind).await,
        }
    }

    async fn sync_for(&self, kind: Kind) -> Result<(), Failure> {
        let started = Instant::now();
        let synced = self.group.sync().await;
        self.metrics.stage(kind, Stage::Sync, started.elapsed());
        synced.map_err(|reason| {
            Failure::new(
                Code::Io,
                format!("the namespace cannot be made durable: {reason}"),
            )
        })
    }
}
