//! The heartbeat of an I/O server: every second server and metadata service exchange their
//! positions, so that each finds out when the other's folder was replaced by an older copy
//! (`docs/design/0022-older-copies.md`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_kv::Position;
use weft_layout::FileId;
use weft_net::Link;
use weft_proto::meta::{HeartbeatReply, HeartbeatRequest, Usage};
use weft_proto::stamp;

use crate::io::{Admission, IoService, learn_replicas};
use crate::limits::{HEARTBEAT_INTERVAL, SERVICE_NOTE_INTERVAL};
use crate::position;
use crate::tasks::stopped;

/// What every heartbeat says of the server.
pub(super) struct ServerInfo {
    /// Its id.
    pub server: u32,
    /// Which of its replicas this is.
    pub replica: u32,
    /// The address it serves.
    pub address: String,
    /// The address of its metrics.
    pub metrics: String,
    /// The id of its store; empty: it has none.
    pub store: Bytes,
}

/// Reports to the metadata service that the server is up, where, and how full; learns the epoch.
pub(super) struct Heartbeat {
    io: Arc<IoService>,
    link: Link,
    info: ServerInfo,
    /// Positions that the service asked for and the store has.
    has: Vec<stamp::Position>,
    /// The store lacks a position that the service asked for.
    rolled_back: bool,
    /// The store has put files below this id in doubt, as the service asked.
    doubted: u64,
    /// The position of the namespace that the store has noted.
    service: Option<Position>,
    /// When it was noted last.
    noted: Option<Instant>,
}

/// When the next heartbeat is due.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextBeat {
    /// At once: the service waits for an answer.
    Now,
    AfterInterval,
}

impl Heartbeat {
    pub(super) fn new(io: Arc<IoService>, link: Link, info: ServerInfo) -> Heartbeat {
        Heartbeat {
            io,
            link,
            info,
            has: Vec::new(),
            rolled_back: false,
            doubted: 0,
            service: None,
            noted: None,
        }
    }

    /// The service that it reports on.
    pub(super) fn io(&self) -> &Arc<IoService> {
        &self.io
    }

    pub(super) async fn run(mut self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        let mut failed = 0_u32;
        match self.io.store().observed_service_position() {
            Ok(position) => self.service = position,
            Err(error) => {
                tracing::warn!(%error, "cannot read the noted position of the metadata service");
            }
        }
        loop {
            let sent = tokio::select! {
                biased;
                () = &mut stop => return,
                sent = AssertUnwindSafe(self.send()).catch_unwind() => sent,
            };
            // A server without heartbeats would be taken for lost, so a panic must not end them.
            let reply = sent.unwrap_or_else(|_| Err("the heartbeat panicked".to_owned()));
            match reply {
                Ok(reply) => {
                    self.io.set_epoch(reply.epoch);
                    self.io.set_since(reply.since);
                    failed = 0;
                    if let Some(set) = &reply.replicas {
                        learn_replicas(&self.io, set).await;
                    }
                    if self.compare(&reply).await == NextBeat::Now {
                        continue;
                    }
                    self.note_service(reply.service).await;
                }
                Err(reason) => {
                    failed = failed.saturating_add(1);
                    // A service that starts at the same time as this server answers the next one.
                    if failed == 2 {
                        tracing::warn!(%reason, "cannot send a heartbeat to the metadata service");
                    }
                }
            }
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {}
            }
        }
    }

    /// Checks whether the store has the positions that the service asks for.
    async fn compare(&mut self, reply: &HeartbeatReply) -> NextBeat {
        if reply.check.is_empty() {
            self.rolled_back = false;
            self.io.set_admission(Admission::Accepted);
            return NextBeat::AfterInterval;
        }
        let has = |at: &stamp::Position| self.io.store().still_has(position::from_wire(at)).is_ok();
        if reply.check.iter().all(has) {
            if self.has == reply.check {
                return NextBeat::AfterInterval;
            }
            self.has.clone_from(&reply.check);
            return NextBeat::Now;
        }
        if reply.doubt != 0 && self.doubted != reply.doubt {
            match self.io.store().doubt_older(FileId(reply.doubt)).await {
                Ok(()) => {
                    self.doubted = reply.doubt;
                    tracing::warn!(
                        server = self.info.server,
                        "the administrator has accepted this server's older folder: files are in doubt until they are written anew or accepted"
                    );
                    return NextBeat::Now;
                }
                Err(error) => {
                    tracing::error!(%error, "cannot put the files of this server's older folder in doubt");
                }
            }
        }
        self.io.set_admission(Admission::RolledBack);
        if std::mem::replace(&mut self.rolled_back, true) {
            return NextBeat::AfterInterval;
        }
        tracing::error!(
            server = self.info.server,
            "this server is refused: its folder is older than what the server reported before, or another process runs with a copy of the folder"
        );
        NextBeat::Now
    }

    /// Notes the service's position in the store, at bounded intervals.
    async fn note_service(&mut self, service: Option<stamp::Position>) {
        let Some(service) = service.filter(|_| !self.info.store.is_empty()) else {
            return;
        };
        let service = position::from_wire(&service);
        let restarted = self.service.map(|at| at.incarnation) != Some(service.incarnation);
        let due = self
            .noted
            .is_none_or(|when| when.elapsed() >= SERVICE_NOTE_INTERVAL);
        if self.service == Some(service) || !(restarted || due) {
            return;
        }
        match self.io.store().set_service_position(service).await {
            Ok(()) => (self.service, self.noted) = (Some(service), Some(Instant::now())),
            Err(error) => {
                tracing::warn!(%error, "cannot note the position of the metadata service");
            }
        }
    }

    async fn send(&self) -> Result<HeartbeatReply, String> {
        let usage = self.io.store().usage();
        // A store without an id cannot be recognized later, so its positions mean nothing.
        let has_id = !self.info.store.is_empty();
        let request = HeartbeatRequest {
            id: self.info.server,
            replica: self.info.replica,
            address: self.info.address.clone(),
            metrics: self.info.metrics.clone(),
            usage: Usage {
                capacity: usage.capacity,
                used: usage.used,
                available: usage.available,
            },
            store: self.info.store.clone(),
            durable: has_id.then(|| position::to_wire(self.io.store().durable_position())),
            has: self.has.clone(),
            rolled_back: self.rolled_back,
            doubted: self.doubted,
            newest: if self.rolled_back {
                self.io.store().newest()
            } else {
                0
            },
            service: self.service.filter(|_| has_id).map(position::to_wire),
            progress: self.io.replicas().map_or_else(Vec::new, |r| r.progress()),
        };
        let (connection, _) = self.link.connection().await.map_err(|e| e.to_string())?;
        let reply = connection.call(&request).await;
        reply.map_err(|e| e.to_string())
    }
}
