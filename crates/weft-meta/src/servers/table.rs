//! The server map in memory, and how heartbeats change it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use weft_kv::Reader;
use weft_layout::SERVERS_MAX;
use weft_proto::meta::{
    ChangeReplicasRequest, HeartbeatReply, HeartbeatRequest, JoinServerRequest, LeaveServerRequest,
    Replica, ReplicaChange, ReplicaProgress, ReplicaSet, Server, ServerState, Usage,
};
use weft_proto::stamp::Position;

use super::placement::Pool;
use super::{membership, replicas};
use crate::error::MetaError;
use crate::limits::{HEARTBEAT_TIMEOUT, POSITION_RECORD_INTERVAL, REPLICA_UP};
use crate::records::keys::{self, SERVERS};
use crate::records::record::{ReplicaRecord, ServerRecord};

/// What a replica reported last.
#[derive(Clone, Debug, Default)]
struct ReplicaEntry {
    last_heartbeat: i64,
    usage: Usage,
    metrics: String,
}

#[derive(Debug, Default)]
struct ServerEntry {
    /// Its durable record.
    record: ServerRecord,
    metrics: String,
    last_heartbeat: Option<i64>,
    usage: Usage,
    /// The accepted incarnation: its store has what earlier ones reported as durable.
    accepted: u64,
    /// The durable position that it reported last; the record has a slightly older one.
    durable: Option<Position>,
    /// When the record was last written.
    recorded: i64,
    /// When it last reported a store that is older than its durable position.
    rolled_back: Option<i64>,
    /// When the newest bytes of that store were written.
    newest: i64,
    /// Its replicas that have reported, by number.
    replicas: BTreeMap<u32, ReplicaEntry>,
    /// Replicas that catch up, as the primary said.
    progress: Vec<ReplicaProgress>,
}

impl ServerEntry {
    /// Whether a replica has reported within so many nanoseconds.
    fn replica_reported(&self, number: u32, now: i64, within: i64) -> bool {
        let replica = self.replicas.get(&number);
        replica.is_some_and(|r| now.saturating_sub(r.last_heartbeat) <= within)
    }

    /// Its replicas as the wire describes them.
    fn describe_replicas(&self, now: i64) -> Vec<Replica> {
        let record = &self.record;
        let describe = |of: &ReplicaRecord| {
            let entry = self.replicas.get(&of.number).cloned().unwrap_or_default();
            let is_primary = of.number == record.primary;
            Replica {
                number: of.number,
                address: of.address.clone(),
                primary: is_primary,
                in_sync: record.in_sync.contains(&of.number),
                up: self.replica_reported(of.number, now, HEARTBEAT_TIMEOUT)
                    || is_primary && self.is_up(now),
                usage: if is_primary { self.usage } else { entry.usage },
                metrics: if is_primary {
                    self.metrics.clone()
                } else {
                    entry.metrics
                },
                leaving: of.leaving,
                domain: of.domain.clone(),
                progress: self
                    .progress
                    .iter()
                    .find(|p| p.number == of.number)
                    .cloned(),
            }
        };
        record.replicas.iter().map(describe).collect()
    }

    /// It has joined, and no process of it was ever accepted: it has no file, and gets none.
    fn is_unused(&self) -> bool {
        let has_served = self.record.incarnation != 0 || self.accepted != 0;
        self.record.joined && self.record.replicas.is_empty() && !has_served
    }

    /// Whether a node that has all its data is up.
    fn has_source(&self, now: i64) -> bool {
        let is_up = |number: &u32| {
            let is_primary = *number == self.record.primary && self.is_up(now);
            is_primary || self.replica_reported(*number, now, HEARTBEAT_TIMEOUT)
        };
        if self.record.in_sync.is_empty() {
            self.is_up(now)
        } else {
            self.record.in_sync.iter().any(is_up)
        }
    }

    /// The incarnation of its store, as far as it is known.
    fn incarnation(&self) -> u64 {
        match self.accepted {
            0 => self.record.incarnation,
            accepted => accepted,
        }
    }

    fn is_up(&self, now: i64) -> bool {
        self.last_heartbeat
            .is_some_and(|at| now.saturating_sub(at) <= HEARTBEAT_TIMEOUT)
    }

    fn state(&self, now: i64) -> ServerState {
        let lately = |when: i64| now.saturating_sub(when) <= HEARTBEAT_TIMEOUT;
        if self.is_up(now) {
            ServerState::Up
        } else if self.rolled_back.is_some_and(lately) {
            ServerState::RolledBack
        } else {
            ServerState::Down
        }
    }

    /// The position that a new incarnation must have.
    fn required_position(&self) -> Option<Position> {
        let recorded = Position {
            incarnation: self.record.incarnation,
            sequence: self.record.sequence,
        };
        self.durable
            .or_else(|| (recorded.incarnation != 0).then_some(recorded))
    }
}

/// The server map behind its locks. Transactions read it, so that the table may not be held during
/// a wait for the engine.
#[derive(Debug)]
pub(crate) struct Servers {
    table: RwLock<ServerTable>,
    /// Held by those that change records, also while they wait for the engine.
    changing: Mutex<()>,
}

/// The right to change records of the server map, held by one call at a time.
pub(crate) struct ChangingServers<'a> {
    servers: &'a Servers,
    _changing: MutexGuard<'a, ()>,
}

impl ChangingServers<'_> {
    /// The table, for one step. No transaction may run meanwhile.
    pub(crate) fn table(&self) -> RwLockWriteGuard<'_, ServerTable> {
        self.servers.table.write()
    }
}

impl Servers {
    pub(crate) fn new(table: ServerTable) -> Servers {
        Servers {
            table: RwLock::new(table),
            changing: Mutex::new(()),
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, ServerTable> {
        self.table.read()
    }

    /// Waits for others that change records.
    pub(crate) fn changing(&self) -> ChangingServers<'_> {
        ChangingServers {
            servers: self,
            _changing: self.changing.lock(),
        }
    }

    /// The server map's epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.table.read().epoch
    }

    /// The servers to choose from for a new file.
    pub(crate) fn pool(&self, now: i64) -> Pool {
        if self.table.read().since.is_none() {
            self.table.write().since.get_or_insert(now);
        }
        self.table.read().pool(now)
    }
}

/// The outcome of a heartbeat.
pub(crate) enum Heartbeat {
    /// The server is refused with this answer.
    Refused(HeartbeatReply),
    /// The server is accepted, once the update (if any) is durable.
    Accepted(Option<ServerUpdate>),
}

/// What the report of a replica means.
pub(crate) struct ReplicaReport {
    /// The record to store, if it changes; and whether clients must read the server map again.
    pub(crate) update: Option<(ServerRecord, bool)>,
    /// The replica is the primary, once the update is durable: the report is the server's.
    pub(crate) is_primary: bool,
    /// It has another store than the only one that has every acknowledged change: it is refused.
    pub(crate) is_emptied: bool,
}

/// The change of a server's record by a heartbeat.
pub(crate) struct ServerUpdate {
    record: ServerRecord,
    moved: bool,
    reformatted: bool,
}

impl ServerUpdate {
    /// Whether the server has another address than before.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved
    }

    /// Whether the server has another store than before: the data of the old one is lost.
    pub(crate) fn is_reformatted(&self) -> bool {
        self.reformatted
    }

    /// Whether clients must read the server map again.
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

/// A new node would have no source of the data.
const NO_SOURCE: &str =
    "no node that has its data is up, so a new one would wait for it: start that node first";

fn refused(server: u32, reason: &'static str) -> MetaError {
    MetaError::Invalid {
        path: format!("server {server}"),
        reason,
    }
}

/// The servers, and the epoch of the map.
#[derive(Debug)]
pub(crate) struct ServerTable {
    epoch: u64,
    servers: BTreeMap<u32, ServerEntry>,
    /// Ids of servers that were removed.
    removed: BTreeSet<u32>,
    /// The first time that a caller supplied; until [`HEARTBEAT_TIMEOUT`] later servers may not
    /// have sent a heartbeat yet.
    since: Option<i64>,
}

impl ServerTable {
    pub(crate) fn load(reader: &dyn Reader, epoch: u64) -> Result<ServerTable, MetaError> {
        let (mut servers, mut removed) = (BTreeMap::new(), BTreeSet::new());
        let mut damaged = None;
        let mut visit = |key: &[u8], value: &[u8]| {
            let id = key.try_into().map_or(0, u32::from_be_bytes);
            match keys::decode::<ServerRecord>("server", id.into(), value) {
                Ok(record) if record.removed => {
                    removed.insert(id);
                    ControlFlow::Continue(())
                }
                Ok(record) => {
                    let server = ServerEntry {
                        record,
                        ..ServerEntry::default()
                    };
                    servers.insert(id, server);
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
                servers,
                removed,
                since: None,
            }),
        }
    }

    /// The ids of the servers that the volume was formatted with, ascending.
    pub(crate) fn formatted_ids(&self) -> Vec<u32> {
        let formatted = self.servers.iter().filter(|(_, s)| !s.record.joined);
        formatted.map(|(id, _)| *id).collect()
    }

    fn server(&mut self, id: u32) -> Result<&mut ServerEntry, MetaError> {
        let server = self.servers.get_mut(&id);
        server.ok_or(MetaError::UnknownServer { server: id })
    }

    /// Takes the report of a replica; `None` if the server has one store.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`]; [`MetaError::Invalid`] for a replica that the server does not
    /// have.
    pub(crate) fn receive_replica(
        &mut self,
        now: i64,
        request: &HeartbeatRequest,
    ) -> Result<Option<ReplicaReport>, MetaError> {
        let number = request.replica;
        let server = self.server(request.id)?;
        if server.record.replicas.is_empty() && number == 0 {
            return Ok(None);
        }
        let known = server.record.replicas.iter().find(|r| r.number == number);
        let gone = "this process is no replica of the server, or not any more: it can be stopped";
        let known = known.ok_or_else(|| refused(request.id, gone))?;
        let report = ReplicaRecord {
            number,
            address: request.address.clone(),
            store: if request.store.is_empty() {
                known.store.clone()
            } else {
                request.store.to_vec()
            },
            incarnation: request.durable.map_or(known.incarnation, |d| d.incarnation),
            ..known.clone()
        };
        let others = || {
            server
                .record
                .in_sync
                .iter()
                .copied()
                .filter(|n| *n != number)
        };
        let unsure = |number: &u32| {
            let replicas = server.record.replicas.iter();
            replicas.clone().any(|r| r.number == *number && r.restarted)
        };
        let mut successor =
            others().find(|n| !unsure(n) && server.replica_reported(*n, now, REPLICA_UP));
        let is_other_store = !known.store.is_empty() && known.store != report.store;
        if known.incarnation != 0 && known.incarnation != report.incarnation {
            if is_other_store || request.rolled_back {
                // Whatever the folder holds, another one has every acknowledged change.
                successor = successor.or_else(|| others().find(|n| !unsure(n)));
                successor = successor.or_else(|| others().next());
                let doubts = server.record.doubt != 0 && request.doubted == server.record.doubt;
                let is_last = number == server.record.primary && successor.is_none();
                // Those that are not in sync would be made equal to an empty store.
                if is_other_store && is_last && server.record.replicas.len() > 1 && !doubts {
                    return Ok(Some(ReplicaReport {
                        update: None,
                        is_primary: false,
                        is_emptied: true,
                    }));
                }
            } else if number == server.record.primary
                && successor.is_none()
                && others().next().is_some()
                && server.accepted != report.incarnation
            {
                // It stays primary, perhaps alone, only with what it has reported as durable.
                return Ok(Some(ReplicaReport {
                    update: None,
                    is_primary: true,
                    is_emptied: false,
                }));
            }
        }
        let stays = !is_other_store && !request.rolled_back && !server.is_up(now);
        let next = replicas::reported(&server.record, &report, successor, stays);
        let entry = ReplicaEntry {
            last_heartbeat: now,
            usage: request.usage,
            metrics: request.metrics.clone(),
        };
        server.replicas.insert(number, entry);
        let primary = next.as_ref().unwrap_or(&server.record).primary;
        let moves = |next: &ServerRecord| next.primary != server.record.primary;
        Ok(Some(ReplicaReport {
            update: next.map(|next| (next.clone(), moves(&next))),
            is_primary: primary == number,
            is_emptied: false,
        }))
    }

    /// The answer to the report of a primary whose store is another one than the only one in sync:
    /// it lacks a position that no store has.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`].
    pub(crate) fn refuse_emptied(
        &mut self,
        now: i64,
        request: &HeartbeatRequest,
        service: Option<Position>,
    ) -> Result<HeartbeatReply, MetaError> {
        let epoch = self.epoch;
        let server = self.server(request.id)?;
        if server.rolled_back.is_none() {
            tracing::error!(
                server = request.id,
                replica = request.replica,
                "the replica is refused: it was formatted anew, and no other one has every acknowledged change"
            );
        }
        (server.rolled_back, server.last_heartbeat) = (Some(now), None);
        server.replicas.remove(&request.replica);
        let primary = server.record.primary;
        let known = server.record.replicas.iter().find(|r| r.number == primary);
        Ok(HeartbeatReply {
            epoch,
            since: server.record.since,
            check: vec![Position {
                incarnation: known.map_or(0, |r| r.incarnation),
                sequence: u64::MAX,
            }],
            service,
            doubt: server.record.doubt,
            replicas: replicas::set_of(&server.record),
        })
    }

    /// The answer to the report of a replica that is not the primary.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`].
    pub(crate) fn answer_backup(
        &mut self,
        id: u32,
        service: Option<Position>,
    ) -> Result<HeartbeatReply, MetaError> {
        let epoch = self.epoch;
        let record = &self.server(id)?.record;
        Ok(HeartbeatReply {
            epoch,
            since: record.since,
            service,
            replicas: replicas::set_of(record),
            ..HeartbeatReply::default()
        })
    }

    fn has_replica(&self, server: u32, number: u32) -> bool {
        let server = self.servers.get(&server);
        server.is_some_and(|s| s.record.replicas.iter().any(|r| r.number == number))
    }

    /// Which server and replica a store is that has joined before.
    fn joined_before(&self, store: &[u8]) -> Option<(u32, u32)> {
        self.servers.iter().find_map(|(id, server)| {
            let record = &server.record;
            let replica = record.replicas.iter().find(|r| r.store == store);
            match replica {
                Some(replica) => Some((*id, replica.number)),
                None => (record.replicas.is_empty() && record.store == store).then_some((*id, 0)),
            }
        })
    }

    /// The server and the replica that a store becomes, and the server's record if that is new.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`]; [`MetaError::Invalid`].
    pub(crate) fn join(
        &mut self,
        now: i64,
        request: &JoinServerRequest,
    ) -> Result<(u32, u32, Option<ServerRecord>), MetaError> {
        if let Some((server, replica)) = self.joined_before(&request.store) {
            if request.server.is_some_and(|asked| asked != server) {
                let reason = "this store has joined as this one before: remove its folder, and `weft server remove` what it has become";
                return Err(refused(server, reason));
            }
            // It may have been told to stay meanwhile.
            let record = match request.replaces.filter(|replaced| *replaced != replica) {
                Some(replaced) if self.has_replica(server, replaced) => {
                    let entry = self.server(server)?;
                    let request = LeaveServerRequest {
                        server,
                        replica: replaced,
                        ..LeaveServerRequest::default()
                    };
                    let incarnation = entry.incarnation();
                    let told = membership::told_to_leave(&entry.record, incarnation, &request);
                    told.map_err(|reason| refused(server, reason))?
                }
                _ => None,
            };
            return Ok((server, replica, record));
        }
        let Some(id) = request.server else {
            let ids = self.servers.keys().chain(&self.removed);
            let id = ids.max().map_or(0, |last| last + 1);
            if self.servers.len() >= SERVERS_MAX {
                return Err(refused(id, "the volume has as many servers as it may have"));
            }
            let record = ServerRecord {
                address: request.address.clone(),
                store: request.store.to_vec(),
                joined: true,
                ..ServerRecord::default()
            };
            return Ok((id, 0, Some(record)));
        };
        let server = self.server(id)?;
        if !server.has_source(now) {
            return Err(refused(id, NO_SOURCE));
        }
        let (record, number) = membership::joined(&server.record, server.incarnation(), request)
            .map_err(|reason| refused(id, reason))?;
        Ok((id, number, Some(record)))
    }

    /// Whether a server has joined and its process was never accepted: it has no file.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`].
    pub(crate) fn is_unused(&mut self, id: u32) -> Result<bool, MetaError> {
        Ok(self.server(id)?.is_unused())
    }

    /// Removes a server whose record was removed durably.
    pub(crate) fn remove(&mut self, id: u32, epoch: u64) {
        self.servers.remove(&id);
        self.removed.insert(id);
        self.epoch = epoch;
    }

    /// The record after a replica was told to leave or to stay; `None` if nothing changes.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`]; [`MetaError::Invalid`].
    pub(crate) fn leave(
        &mut self,
        now: i64,
        request: &LeaveServerRequest,
    ) -> Result<Option<ServerRecord>, MetaError> {
        let server = self.server(request.server)?;
        if request.succeeded && !server.has_source(now) {
            return Err(refused(request.server, NO_SOURCE));
        }
        membership::told_to_leave(&server.record, server.incarnation(), request)
            .map_err(|reason| refused(request.server, reason))
    }

    /// The record after the change that a replica asks for, and whether clients must read the
    /// server map again; `None` if the change may not be made.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`].
    pub(crate) fn change_replicas(
        &mut self,
        request: &ChangeReplicasRequest,
    ) -> Result<Option<(ServerRecord, bool)>, MetaError> {
        let record = &self.server(request.server)?.record;
        if record.term != request.term {
            return Ok(None);
        }
        let Ok(change) = ReplicaChange::try_from(request.change) else {
            return Ok(None);
        };
        let next = replicas::changed(record, request.caller, change, request.replica);
        Ok(next.map(|next| (next.clone(), next.primary != record.primary)))
    }

    /// The replicas of a server that are in sync; `None` if it has one store.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`].
    pub(crate) fn replica_set(&mut self, id: u32) -> Result<Option<ReplicaSet>, MetaError> {
        Ok(replicas::set_of(&self.server(id)?.record))
    }

    /// Accepts or refuses a heartbeat. A server is accepted only with a store that has what the
    /// server reported as durable before. `service` is the durable position of the namespace.
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
            // Another store has no position to check: the data of the earlier one is lost, and the
            // new store's first id tells which files are affected.
            let required_position = server.required_position().filter(|_| !other_store);
            let doubts = server.record.doubt != 0 && request.doubted == server.record.doubt;
            if let Some(at) = required_position.filter(|at| !doubts && !request.has.contains(at)) {
                if request.rolled_back && !server.is_up(now) {
                    if server.rolled_back.is_none() {
                        tracing::error!(
                            server = id,
                            "the server is refused: its store is older than what it reported as durable"
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
                    replicas: replicas::set_of(&server.record),
                }));
            }
            server.accepted = durable.incarnation;
        }
        (server.rolled_back, server.newest) = (None, 0);
        server.durable = request.durable.or(server.durable);
        let moved = server.record.address != request.address;
        let unrecorded = server.durable.filter(|at| {
            let is_new = at.incarnation != server.record.incarnation;
            let grown = at.sequence > server.record.sequence;
            is_new || (grown && now.saturating_sub(server.recorded) >= POSITION_RECORD_INTERVAL)
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
        let server = self.servers.entry(id).or_default();
        if server.record.primary != record.primary {
            // What is known of the store is known of the former primary's.
            (server.accepted, server.durable, server.rolled_back) = (0, None, None);
            server.progress.clear();
            // What its process has reported as a backup is what is known of it now.
            let entry = server.replicas.get(&record.primary).cloned();
            server.last_heartbeat = entry.as_ref().map(|entry| entry.last_heartbeat);
            let entry = entry.unwrap_or_default();
            (server.usage, server.metrics) = (entry.usage, entry.metrics);
        }
        let is_member = |number: &u32| record.replicas.iter().any(|r| r.number == *number);
        server.replicas.retain(|number, _| is_member(number));
        server.record = record;
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
        server.progress.clone_from(&request.progress);
        server.last_heartbeat = Some(now);
        Ok(HeartbeatReply {
            epoch,
            since: server.record.since,
            check: Vec::new(),
            service,
            doubt: 0,
            replicas: replicas::set_of(&server.record),
        })
    }

    /// The durable record of a server.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`].
    pub(crate) fn record(&mut self, id: u32) -> Result<&ServerRecord, MetaError> {
        Ok(&self.server(id)?.record)
    }

    /// Accepts a server whose store was rolled back, after `record`, which says so, was committed.
    /// Returns whether it was refused until now.
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

    /// The epoch, and the servers as the wire describes them.
    pub(crate) fn describe(&self, now: i64) -> (u64, Vec<Server>) {
        let servers = self.servers.iter().map(|(id, server)| Server {
            id: *id,
            address: server.record.address.clone(),
            since: server.record.since,
            state: server.state(now).into(),
            usage: server.usage,
            metrics: server.metrics.clone(),
            newest: server.newest,
            replicas: server.describe_replicas(now),
            missing: membership::missing(&server.record),
        });
        (self.epoch, servers.collect())
    }

    /// The candidates for new files are the servers that are up. Those without a heartbeat yet
    /// count as up just after the start, and all do when none is up.
    fn pool(&self, now: i64) -> Pool {
        let servers = || self.servers.iter().filter(|(_, s)| !s.is_unused());
        let all: Vec<u32> = servers().map(|(id, _)| *id).collect();
        let early = self
            .since
            .is_none_or(|since| now.saturating_sub(since) <= HEARTBEAT_TIMEOUT);
        let usable =
            |server: &ServerEntry| server.is_up(now) || (early && server.last_heartbeat.is_none());
        let mut candidates: Vec<u32> = servers()
            .filter(|(_, server)| usable(server))
            .map(|(id, _)| *id)
            .collect();
        if candidates.is_empty() {
            candidates.clone_from(&all);
        }
        let replicas = self
            .servers
            .iter()
            .map(|(id, s)| (*id, s.record.replicas.iter().filter(|r| !r.leaving).count()));
        let replicas = replicas.filter(|(_, count)| *count > 1).collect();
        let reported = self
            .servers
            .iter()
            .filter(|(_, s)| s.last_heartbeat.is_some());
        let available = reported.map(|(id, s)| (*id, s.usage.available));
        Pool::new(all, candidates, replicas, available.collect())
    }
}
