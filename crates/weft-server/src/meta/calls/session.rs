//! Calls by which clients and servers report their state: attachments, locks, positions.

use weft_net::Served;
use weft_proto::coord::{SyncNamespaceReply, SyncNamespaceRequest};
use weft_proto::meta::{
    AcceptRollbackRequest, DetachRequest, HeartbeatReply, HeartbeatRequest, ReassertRequest,
    ReportRequest,
};

use crate::failure;
use crate::meta::MetaService;
use crate::meta::answer::Durability;
use crate::meta::rollback::mark_sizes_inexact;
use crate::position;

impl MetaService {
    pub(in crate::meta) async fn report(&self, call: Served) {
        let client = call.peer.client;
        let n = &self.namespace.by(client);
        let report = |r: &ReportRequest| {
            let reply = n.report(client, r)?;
            if r.detach && !n.is_attached(client, r.file) {
                self.locks.detached(client, r.file);
            }
            Ok(reply)
        };
        self.answer(call, report).await;
    }

    pub(in crate::meta) async fn detach(&self, call: Served) {
        let client = call.peer.client;
        let n = &self.namespace.by(client);
        let detach = |r: &DetachRequest| {
            let reply = n.detach(client, r)?;
            for file in r.reading.iter().chain(&r.writing) {
                if !n.is_attached(client, *file) {
                    self.locks.detached(client, *file);
                }
            }
            Ok(reply)
        };
        self.answer(call, detach).await;
    }

    pub(in crate::meta) async fn reassert(&self, call: Served) {
        let client = call.peer.client;
        let n = &self.namespace.by(client);
        let reassert = |r: &ReassertRequest| {
            self.sessions
                .describe(client, r.lazy, &r.name, &r.application);
            let mut reply = n.reassert(client, r)?;
            let attached = |file| n.is_attached(client, file);
            reply.lost = self.locks.reassert(client, &r.locks, attached);
            Ok(reply)
        };
        self.answer(call, reassert).await;
    }

    pub(in crate::meta) async fn sync_namespace(&self, call: Served) {
        let n = &self.namespace.by(call.peer.client);
        let sync = |r: &SyncNamespaceRequest| {
            for at in &r.changed {
                n.still_has(position::from_wire(at))?;
            }
            Ok((SyncNamespaceReply {}, Durability::Now))
        };
        self.answer_with(call, sync).await;
    }

    pub(in crate::meta) async fn accept_rollback(&self, call: Served) {
        let n = &self.namespace.by(call.peer.client);
        if self.rollback.is_found() {
            // The servers know sizes that an older namespace does not. The mark must be on stable
            // storage before any client is served.
            let client = call.peer.client;
            let marked = match mark_sizes_inexact(n).await {
                Ok(()) => self.make_durable(Durability::Now, client, call.kind).await,
                Err(error) => Err(failure::of_meta(&error)),
            };
            if let Err(failure) = marked {
                return call.reply.fail(&failure);
            }
        }
        let accept = |r: &AcceptRollbackRequest| self.rollback.accept(n, *r);
        self.answer(call, accept).await;
        self.unknown_sizes.notify_one();
    }

    pub(in crate::meta) async fn heartbeat(&self, call: Served) {
        let n = &self.namespace.by(call.peer.client);
        let now = self.env.clock.now();
        n.note_durable(self.group.durable());
        let heartbeat = |r: &HeartbeatRequest| {
            self.rollback.compare(n, r);
            let reply = n.heartbeat(now, r)?;
            // While a rollback is pending, servers must keep the position that they noted.
            let service = reply.service.filter(|_| !self.rollback.is_found());
            Ok(HeartbeatReply { service, ..reply })
        };
        let epoch = n.epoch();
        self.answer(call, heartbeat).await;
        if n.epoch() != epoch {
            self.learn_servers();
        }
    }

    pub(in crate::meta) async fn change_replicas(&self, call: Served) {
        let n = &self.namespace.by(call.peer.client);
        self.answer(call, |r| n.change_replicas(r)).await;
        self.learn_servers();
    }

    pub(in crate::meta) async fn join_server(&self, call: Served) {
        let n = &self.namespace.by(call.peer.client);
        let now = self.env.clock.now();
        self.answer(call, |r| n.join_server(now, r)).await;
        self.learn_servers();
    }

    pub(in crate::meta) async fn leave_server(&self, call: Served) {
        let n = &self.namespace.by(call.peer.client);
        let now = self.env.clock.now();
        self.answer(call, |r| n.leave_server(now, r)).await;
        self.learn_servers();
    }
}
