//! The server map: ids and addresses are durable, what a heartbeat says beside is kept in memory.
//!
//! The epoch rises, durably and before anybody sees it, when a server comes back elsewhere.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use weft_kv::{OrderedKv, Reader};
use weft_proto::meta::{
    HeartbeatReply, HeartbeatRequest, Server, ServerMapReply, ServerState, Usage,
};
use weft_proto::stamp::Position;

use super::placement::Pool;
use crate::error::MetaError;
use crate::namespace::Namespace;
use crate::records::keys::{self, SERVERS};
use crate::records::record::ServerRecord;

/// A server that was not heard of for so long counts as down, in nanoseconds.
const SILENCE_MAX: i64 = 5_000_000_000;
/// How often, at most, it is recorded how far a server's store is, in nanoseconds: what an older copy of a store is recognised by.
const RECORD_EVERY: i64 = 20_000_000_000;
/// The longest address.
const ADDRESS_MAX: usize = 255;

#[derive(Debug, Default)]
struct Known {
    /// What is durable of it.
    record: ServerRecord,
    metrics: String,
    heard: Option<i64>,
    usage: Usage,
    /// The incarnation that takes part: its store was found to have what earlier ones said to be durable.
    accepted: u64,
    /// What it says to be durable now; the record has what it said some seconds ago.
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

    /// What an incarnation that is new must have.
    fn remembered(&self) -> Option<Position> {
        let recorded = Position {
            incarnation: self.record.incarnation,
            sequence: self.record.sequence,
        };
        self.durable
            .or_else(|| (recorded.incarnation != 0).then_some(recorded))
    }
}

/// What is known of the servers.
#[derive(Debug)]
pub(crate) struct ServerTable {
    epoch: u64,
    known: BTreeMap<u32, Known>,
    /// The first time this service was told: servers have until a silence later to be heard.
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

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
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
        Pool { all, candidates }
    }
}

impl Namespace {
    /// The ids of the servers that a volume was formatted with, ascending.
    pub fn servers_of(kv: &dyn OrderedKv) -> Result<Vec<u32>, MetaError> {
        let table = ServerTable::load(&*kv.snapshot()?, 0)?;
        Ok(table.known.into_keys().collect())
    }

    pub(crate) fn pool(&self, now: i64) -> Pool {
        if self.servers.read().since.is_none() {
            self.servers.write().since.get_or_insert(now);
        }
        self.servers.read().pool(now)
    }

    /// The server map's epoch.
    pub fn epoch(&self) -> u64 {
        self.servers.read().epoch()
    }

    /// A server lives. One that comes with another store than the last time has lost what it held: files that are older are
    /// told from those that are not by their ids.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`] for an id that the volume was not formatted with.
    /// # Durability
    /// A changed address, another store and the new epoch are on stable storage on return.
    pub fn heartbeat(
        &self,
        now: i64,
        request: &HeartbeatRequest,
    ) -> Result<HeartbeatReply, MetaError> {
        let id = request.id;
        if request.address.is_empty() || request.address.len() > ADDRESS_MAX {
            return Err(MetaError::Invalid {
                path: format!("server {id}"),
                reason: "its address needs 1 to 255 bytes",
            });
        }
        let mut table = self.servers.write();
        let table = &mut *table;
        table.since.get_or_insert(now);
        let server = table.known.get_mut(&id);
        let server = server.ok_or(MetaError::UnknownServer { server: id })?;
        let service = self.durable();
        let other_store = !request.store.is_empty() && server.record.store != request.store;
        if let Some(durable) = request.durable
            && server.accepted != durable.incarnation
        {
            // Another store never said anything: what the earlier one held is lost, and told by its age.
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
                return Ok(HeartbeatReply {
                    epoch: table.epoch,
                    since: server.record.since,
                    check: vec![at],
                    service,
                    doubt: server.record.doubt,
                });
            }
            server.accepted = durable.incarnation;
        }
        (server.rolled_back, server.newest) = (None, 0);
        server.durable = request.durable.or(server.durable);
        let moved = server.record.address != request.address;
        let unrecorded = server.durable.filter(|at| {
            let anew = at.incarnation != server.record.incarnation;
            let grown = at.sequence > server.record.sequence;
            anew || (grown && now.saturating_sub(server.recorded) >= RECORD_EVERY)
        });
        let answered = server.record.doubt != 0;
        if moved || other_store || answered || unrecorded.is_some() {
            let anew = other_store && !server.record.store.is_empty();
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
            // Rare, so that the lock may be held during the sync: nobody sees the new epoch before
            // it is durable.
            let (epoch, record) = self.edit(|edit| {
                let counters = edit.counters()?;
                if moved || anew {
                    counters.epoch += 1;
                }
                let (epoch, next_id) = (counters.epoch, counters.next_id);
                if anew {
                    record.since = next_id;
                }
                edit.put(SERVERS, &id.to_be_bytes(), &record);
                Ok((epoch, record.clone()))
            })?;
            self.kv.sync()?;
            if moved {
                tracing::info!(server = id, address = %request.address, epoch, "server moved");
            }
            if anew {
                let since = record.since;
                tracing::warn!(
                    server = id,
                    since,
                    "the server was formatted anew: what it held of files with smaller ids is lost"
                );
            }
            server.record = record;
            table.epoch = epoch;
        }
        server.metrics.clone_from(&request.metrics);
        server.usage = request.usage;
        server.heard = Some(now);
        Ok(HeartbeatReply {
            epoch: table.epoch,
            since: server.record.since,
            check: Vec::new(),
            service,
            doubt: 0,
        })
    }

    /// Lets a server take part with a store that is older than what the server said to be durable, once it has put in doubt what it
    /// has of files that there are now. Whether it was refused.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`].
    /// # Durability
    /// As of any operation.
    pub fn accept_rollback(&self, id: u32) -> Result<bool, MetaError> {
        let mut table = self.servers.write();
        let server = table.known.get_mut(&id);
        let server = server.ok_or(MetaError::UnknownServer { server: id })?;
        let mut record = server.record.clone();
        let record = self.edit(|edit| {
            record.doubt = edit.counters()?.next_id;
            edit.put(SERVERS, &id.to_be_bytes(), &record);
            Ok(record.clone())
        })?;
        server.record = record;
        server.accepted = 0;
        Ok(server.rolled_back.take().is_some())
    }

    /// Which servers there are, and how the volume stands.
    pub fn server_map(&self, now: i64) -> Result<ServerMapReply, MetaError> {
        let counts = self.counts()?;
        let table = self.servers.read();
        let servers = table.known.iter().map(|(id, server)| Server {
            id: *id,
            address: server.record.address.clone(),
            since: server.record.since,
            state: server.state(now).into(),
            usage: server.usage,
            metrics: server.metrics.clone(),
            newest: server.newest,
        });
        Ok(ServerMapReply {
            epoch: table.epoch,
            servers: servers.collect(),
            files: counts.files,
            intents: counts.intents,
            volume: self.name().to_owned(),
            rolled_back: false,
            recovering: self.recovering(),
        })
    }
}
