//! What an I/O server and the metadata service say to each other every second: that the server
//! lives, and how far each has come, so that either finds out when the other's folder was replaced
//! by an older copy (`docs/design/0022-older-copies.md`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_kv::Position;
use weft_layout::FileId;
use weft_net::Link;
use weft_proto::meta::{HeartbeatReply, HeartbeatRequest, Usage};
use weft_proto::stamp;

use crate::io::{IoService, Standing};
use crate::node::stopped;

/// Between two heartbeats of an I/O server.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How often, at most, a server writes down how far the namespace is.
const NOTE_EVERY: Duration = Duration::from_secs(20);

/// What a server says of itself in every heartbeat.
pub(crate) struct Says {
    /// Its id.
    pub server: u32,
    /// Where it listens.
    pub address: String,
    /// Where its metrics are.
    pub metrics: String,
    /// Its store's id; empty: it has none.
    pub store: Bytes,
}

/// Tells the metadata service that the server lives, where, and how full it is; learns the epoch.
pub(crate) struct Heartbeat {
    io: Arc<IoService>,
    link: Link,
    says: Says,
    /// What the service asked for and the store has.
    has: Vec<stamp::Position>,
    /// The store lacks something that the service asked for.
    rolled_back: bool,
    /// What the store has of files below this id was put in doubt, as the service asked.
    doubted: u64,
    /// What the store's folder says of the service.
    service: Option<Position>,
    /// When that was written last.
    noted: Option<Instant>,
}

impl Heartbeat {
    pub(crate) fn new(io: Arc<IoService>, link: Link, says: Says) -> Heartbeat {
        Heartbeat {
            io,
            link,
            says,
            has: Vec::new(),
            rolled_back: false,
            doubted: 0,
            service: None,
            noted: None,
        }
    }

    /// What it speaks for.
    pub(crate) fn io(&self) -> &Arc<IoService> {
        &self.io
    }

    pub(crate) async fn run(mut self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        let mut failed = 0_u32;
        match self.io.store().observed_service_position() {
            Ok(heard) => self.service = heard,
            Err(error) => {
                tracing::warn!(%error, "what was heard of the metadata service cannot be read");
            }
        }
        loop {
            let beat = tokio::select! {
                biased;
                () = &mut stop => return,
                beat = AssertUnwindSafe(self.beat()).catch_unwind() => beat,
            };
            // A server that says nothing any more would be taken for lost.
            let beat = beat.unwrap_or_else(|_| Err("it panicked".to_owned()));
            match beat {
                Ok(told) => {
                    self.io.set_epoch(told.epoch);
                    self.io.set_since(told.since);
                    failed = 0;
                    if self.compare(&told).await {
                        // The service waits for the answer.
                        continue;
                    }
                    self.note_service(told.service).await;
                }
                Err(reason) => {
                    failed = failed.saturating_add(1);
                    // A service that starts beside this server answers the next time.
                    if failed == 2 {
                        tracing::warn!(%reason, "the metadata service cannot be told that this server is up");
                    }
                }
            }
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
        }
    }

    /// Looks for what the service asks for; true if there is something new to tell it.
    async fn compare(&mut self, told: &HeartbeatReply) -> bool {
        if told.check.is_empty() {
            self.rolled_back = false;
            self.io.set_standing(Standing::Accepted);
            return false;
        }
        let has = |at: &stamp::Position| {
            let at = Position {
                incarnation: at.incarnation,
                sequence: at.sequence,
            };
            self.io.store().still_has(at).is_ok()
        };
        if told.check.iter().all(has) {
            let new = self.has != told.check;
            self.has.clone_from(&told.check);
            return new;
        }
        if told.doubt != 0 && self.doubted != told.doubt {
            match self.io.store().doubt_older(FileId(told.doubt)).await {
                Ok(()) => {
                    self.doubted = told.doubt;
                    tracing::warn!(
                        server = self.says.server,
                        "the administrator has accepted this server's older folder: files are in doubt until they are written anew or accepted"
                    );
                    return true;
                }
                Err(error) => {
                    tracing::error!(%error, "what this server's older folder has cannot be put in doubt");
                }
            }
        }
        self.io.set_standing(Standing::RolledBack);
        let before = std::mem::replace(&mut self.rolled_back, true);
        if !before {
            tracing::error!(
                server = self.says.server,
                "this server is refused: its folder is older than what the server said before, or another process runs with the folder's copy"
            );
        }
        !before
    }

    /// Keeps what the service says of itself, at bounded intervals.
    async fn note_service(&mut self, told: Option<stamp::Position>) {
        let Some(told) = told.filter(|_| !self.says.store.is_empty()) else {
            return;
        };
        let told = Position {
            incarnation: told.incarnation,
            sequence: told.sequence,
        };
        let anew = self.service.map(|at| at.incarnation) != Some(told.incarnation);
        let due = self.noted.is_none_or(|when| when.elapsed() >= NOTE_EVERY);
        if self.service == Some(told) || !(anew || due) {
            return;
        }
        match self.io.store().set_service_position(told).await {
            Ok(()) => (self.service, self.noted) = (Some(told), Some(Instant::now())),
            Err(error) => {
                tracing::warn!(%error, "what was heard of the metadata service is not kept");
            }
        }
    }

    async fn beat(&self) -> Result<HeartbeatReply, String> {
        let usage = self.io.store().usage();
        // A store without an id is not known again.
        let says = !self.says.store.is_empty();
        let request = HeartbeatRequest {
            id: self.says.server,
            address: self.says.address.clone(),
            metrics: self.says.metrics.clone(),
            usage: Usage {
                capacity: usage.capacity,
                used: usage.used,
                available: usage.available,
            },
            store: self.says.store.clone(),
            durable: says.then(|| on_the_wire(self.io.store().durable_position())),
            has: self.has.clone(),
            rolled_back: self.rolled_back,
            doubted: self.doubted,
            newest: if self.rolled_back {
                self.io.store().newest()
            } else {
                0
            },
            service: self.service.filter(|_| says).map(on_the_wire),
        };
        let (connection, _) = self.link.connection().await.map_err(|e| e.to_string())?;
        let told = connection.call(&request).await;
        told.map_err(|e| e.to_string())
    }
}

fn on_the_wire(at: Position) -> stamp::Position {
    stamp::Position {
        incarnation: at.incarnation,
        sequence: at.sequence,
    }
}
