//! The server map in memory, and what a heartbeat makes of it.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use weft_kv::Reader;
use weft_proto::meta::{HeartbeatReply, HeartbeatRequest, Server, ServerState, Usage};
use weft_proto::stamp::Position;

use super::placement::Pool;
use crate::error::MetaError;
use crate::limits::{RECORD_INTERVAL, SILENCE_MAX};
use crate::records::keys::{self, SERVERS};
use crate::records::record::ServerRecord;

#[derive(Debug, Default)]
struct Known {
    /// What is durable of it.
    record: ServerRecord,
    metrics: String,
    heard: Option<i64>,
    usage: Usage,
    /// The incarnation that takes part: its store has what earlier ones said to be durable.
    accepted: u64,
    /// The durable position that it reported last; the record has one from some seconds ago.
    durable: Option<Position>,
    /// When the record was last written.
    recorded: i64,
    /// When it last said that its store is older than what it said before.
    rolled_back: Option<i64>,
    /// When the newest bytes of that store were written.
    newest: i64,
}

impl Known {
    fn is_up(&self, now: i64) -> bool {
        self.heard
            .is_some_and(|heard| now.saturating_sub(heard) <= SILENCE_MAX)
    }

    fn state(&self, now: i64) -> ServerState {
        let lately = |when: i64| now.saturating_sub(when) <= SILENCE_MAX;
        if self.is_up(now) {
            ServerState::Up
        } else if self.rolled_back.is_some_and(lately) {
            ServerState::RolledBack
        } else {
            ServerState::Down
        }
    }

    /// The position that a new incarnation must have.
    fn remembered(&self) -> Option<Position> {
        let recorded = Position {
            incarnation: self.record.incarnation,
            sequence: self.record.sequence,
        };
        self.durable
            .or_else(|| (recorded.incarnation != 0).then_some(recorded))
    }
}

/// The server map behind its lock.
#[derive(Debug)]
pub(crate) struct Servers(RwLock<ServerTable>);

impl Servers {
    pub(crate) fn new(table: ServerTable) -> Servers {
        Servers(RwLock::new(table))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, ServerTable> {
        self.0.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, ServerTable> {
        self.0.write()
    }

    /// The server map's epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.0.read().epoch
    }

    /// Where new files may go.
    pub(crate) fn pool(&self, now: i64) -> Pool {
        if self.0.read().since.is_none() {
            self.0.write().since.get_or_insert(now);
        }
        self.0.read().pool(now)
    }
}

/// What becomes of a heartbeat.
pub(crate) enum Heartbeat {
    /// The server does not take part; this is its answer.
    Refused(HeartbeatReply),
    /// It takes part, once the update (if any) is durable.
    Accepted(Option<ServerUpdate>),
}

/// What a heartbeat changes of a server's record.
pub(crate) struct ServerUpdate {
    record: ServerRecord,
    moved: bool,
    reformatted: bool,
}

impl ServerUpdate {
    /// The server listens elsewhere than before.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved
    }

    /// The server's store is another one than before: what the old one held is lost.
    pub(crate) fn is_reformatted(&self) -> bool {
        self.reformatted
    }

    /// Clients must read the server map again.
    pub(crate) fn raises_epoch(&self) -> bool {
        self.moved || self.reformatted
    }

    /// The record to store, where `next_id` is the next file's id.
    pub(crate) fn record(&self, next_id: u64) -> ServerRecord {
        let since = if self.reformatted {
            next_id
        } else {
            self.record.since
        };
        ServerRecord {
            since,
            ..self.record.clone()
        }
    }
}

/// What is known of the servers.
#[derive(Debug)]
pub(crate) struct ServerTable {
    epoch: u64,
    known: BTreeMap<u32, Known>,
    /// The first time that the service saw; until [`SILENCE_MAX`] later servers may not have been
    /// heard.
    since: Option<i64>,
}

impl ServerTable {
    pub(crate) fn load(reader: &dyn Reader, epoch: u64) -> Result<ServerTable, MetaError> {
        let mut known = BTreeMap::new();
        let mut damaged = None;
        let mut visit = |key: &[u8], value: &[u8]| {
            let id = key.try_into().map_or(0, u32::from_be_bytes);
            match keys::decode::<ServerRecord>("server", id.into(), value) {
                Ok(record) => {
                    let server = Known {
                        record,
                        ..Known::default()
                    };
                    known.insert(id, server);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    damaged = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        reader.scan(SERVERS, Bound::Unbounded, Bound::Unbounded, &mut visit)?;
        match damaged {
            Some(error) => Err(error),
            None => Ok(ServerTable {
                epoch,
                known,
                since: None,
            }),
        }
    }

    /// The ids of all servers, ascending.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.known.keys().copied().collect()
    }

    fn server(&mut self, id: u32) -> Result<&mut Known, MetaError> {
        let server = self.known.get_mut(&id);
        server.ok_or(MetaError::UnknownServer { server: id })
    }

    /// Judges a heartbeat. A server takes part only with a store that has what the server said to
    /// be durable before. `service` is what of the namespace survives power loss.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`] for an id that the volume was not formatted with.
    pub(crate) fn receive(
        &mut self,
        now: i64,
        request: &HeartbeatRequest,
        service: Option<Position>,
    ) -> Result<Heartbeat, MetaError> {
        let id = request.id;
        self.since.get_or_insert(now);
        let epoch = self.epoch;
        let server = self.server(id)?;
        let other_store = !request.store.is_empty() && server.record.store != request.store;
        if let Some(durable) = request.durable
            && server.accepted != durable.incarnation
        {
            // Another store never reported anything: what the earlier one held is lost, and its age
            // tells which files that were.
            let remembered = server.remembered().filter(|_| !other_store);
            let doubts = server.record.doubt != 0 && request.doubted == server.record.doubt;
            if let Some(at) = remembered.filter(|at| !doubts && !request.has.contains(at)) {
                if request.rolled_back && !server.is_up(now) {
                    if server.rolled_back.is_none() {
                        tracing::error!(
                            server = id,
                            "the server is refused: its folder is older than what the server said before"
                        );
                    }
                    server.rolled_back = Some(now);
                    server.newest = request.newest;
                }
                return Ok(Heartbeat::Refused(HeartbeatReply {
                    epoch,
                    since: server.record.since,
                    check: vec![at],
                    service,
                    doubt: server.record.doubt,
                }));
            }
            server.accepted = durable.incarnation;
        }
        (server.rolled_back, server.newest) = (None, 0);
        server.durable = request.durable.or(server.durable);
        let moved = server.record.address != request.address;
        let unrecorded = server.durable.filter(|at| {
            let anew = at.incarnation != server.record.incarnation;
            let grown = at.sequence > server.record.sequence;
            anew || (grown && now.saturating_sub(server.recorded) >= RECORD_INTERVAL)
        });
        let answered = server.record.doubt != 0;
        if !(moved || other_store || answered || unrecorded.is_some()) {
            return Ok(Heartbeat::Accepted(None));
        }
        let reformatted = other_store && !server.record.store.is_empty();
        let mut record = server.record.clone();
        record.address.clone_from(&request.address);
        if other_store {
            record.store = request.store.to_vec();
        }
        record.doubt = 0;
        if let Some(at) = server.durable {
            (record.incarnation, record.sequence) = (at.incarnation, at.sequence);
            server.recorded = now;
        }
        Ok(Heartbeat::Accepted(Some(ServerUpdate {
            record,
            moved,
            reformatted,
        })))
    }

    /// A server's new record and the new epoch are durable.
    pub(crate) fn store(&mut self, id: u32, record: ServerRecord, epoch: u64) {
        if let Ok(server) = self.server(id) {
            server.record = record;
        }
        self.epoch = epoch;
    }

    /// Counts a server as up from `now` on, and answers its heartbeat.
    pub(crate) fn note_up(
        &mut self,
        now: i64,
        request: &HeartbeatRequest,
        service: Option<Position>,
    ) -> Result<HeartbeatReply, MetaError> {
        let epoch = self.epoch;
        let server = self.server(request.id)?;
        server.metrics.clone_from(&request.metrics);
        server.usage = request.usage;
        server.heard = Some(now);
        Ok(HeartbeatReply {
            epoch,
            since: server.record.since,
            check: Vec::new(),
            service,
            doubt: 0,
        })
    }

    /// What is durable of a server.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`].
    pub(crate) fn record(&mut self, id: u32) -> Result<&ServerRecord, MetaError> {
        Ok(&self.server(id)?.record)
    }

    /// Lets a server take part whose store was rolled back, now that `record`, which says so, is
    /// committed. Whether it was refused until now.
    pub(crate) fn accept_rollback(
        &mut self,
        id: u32,
        record: ServerRecord,
    ) -> Result<bool, MetaError> {
        let server = self.server(id)?;
        server.record = record;
        server.accepted = 0;
        Ok(server.rolled_back.take().is_some())
    }

    /// The epoch, and the servers as clients learn of them.
    pub(crate) fn describe(&self, now: i64) -> (u64, Vec<Server>) {
        let servers = self.known.iter().map(|(id, server)| Server {
            id: *id,
            address: server.record.address.clone(),
            since: server.record.since,
            state: server.state(now).into(),
            usage: server.usage,
            metrics: server.metrics.clone(),
            newest: server.newest,
        });
        (self.epoch, servers.collect())
    }

    /// Where new files may go: to servers that are up; just after the start, before they had time
    /// to be heard, and when none is up, to all.
    fn pool(&self, now: i64) -> Pool {
        let all: Vec<u32> = self.known.keys().copied().collect();
        let early = self
            .since
            .is_none_or(|since| now.saturating_sub(since) <= SILENCE_MAX);
        let usable = |server: &Known| server.is_up(now) || (early && server.heard.is_none());
        let mut candidates: Vec<u32> = self
            .known
            .iter()
            .filter(|(_, server)| usable(server))
            .map(|(id, _)| *id)
            .collect();
        if candidates.is_empty() {
            candidates.clone_from(&all);
        }
        Pool::new(all, candidates)
    }
}
