//! JoinServer, LeaveServer: servers and replicas that come and go.

use weft_proto::meta::{JoinServerReply, JoinServerRequest, LeaveServerReply, LeaveServerRequest};

use super::store_record::store_record;
use crate::error::MetaError;
use crate::limits::{ADDRESS_MAX, DOMAIN_MAX, STORE_ID_MAX};
use crate::records::keys::SERVERS;
use crate::records::record::ServerRecord;
use crate::tx::Volume;

pub(crate) fn join_server(
    volume: &Volume,
    now: i64,
    request: &JoinServerRequest,
) -> Result<JoinServerReply, MetaError> {
    let refuse = |reason| {
        Err(MetaError::Invalid {
            path: request.address.clone(),
            reason,
        })
    };
    if request.address.is_empty() || request.address.len() > ADDRESS_MAX {
        return refuse("the address of a server needs 1 to 255 bytes");
    }
    if request.store.is_empty() || request.store.len() > STORE_ID_MAX {
        return refuse("the id of a store needs 1 to 64 bytes");
    }
    if request.domain.len() > DOMAIN_MAX {
        return refuse("the name of a failure domain has at most 64 bytes");
    }
    let servers = volume.state().servers().changing();
    let (server, replica, record) = servers.table().join(now, request)?;
    if let Some(record) = record {
        // Clients must learn of the server, or that it has replicas.
        store_record(volume, &servers, server, record, true)?;
        let address = &request.address;
        tracing::info!(server, replica, %address, replaces = ?request.replaces, "joined");
    }
    Ok(JoinServerReply {
        server,
        replica,
        volume: volume.state().volume().name.clone(),
    })
}

pub(crate) fn leave_server(
    volume: &Volume,
    now: i64,
    request: &LeaveServerRequest,
) -> Result<LeaveServerReply, MetaError> {
    let (server, replica) = (request.server, request.replica);
    let servers = volume.state().servers().changing();
    if !request.stay && servers.table().is_unused(server)? {
        let epoch = volume.transact(|tx| {
            let counters = tx.counters()?;
            counters.epoch += 1;
            let epoch = counters.epoch;
            let removed = ServerRecord {
                removed: true,
                ..ServerRecord::default()
            };
            tx.put(SERVERS, &server.to_be_bytes(), &removed);
            Ok(epoch)
        })?;
        volume.state().kv().sync()?;
        servers.table().remove(server, epoch);
        tracing::info!(server, "a server that never served is removed");
        return Ok(LeaveServerReply { left: true });
    }
    let record = servers.table().leave(now, request)?;
    if let Some(record) = record {
        // Clients must learn that a server has replicas now.
        let was_plain = servers.table().record(server)?.replicas.is_empty();
        store_record(volume, &servers, server, record, was_plain)?;
        tracing::info!(
            server,
            replica,
            stay = request.stay,
            succeeded = request.succeeded,
            "told to leave, or to stay"
        );
    }
    let is_left = |record: &ServerRecord| !record.replicas.iter().any(|r| r.number == replica);
    let left = servers.table().record(server).map(is_left)?;
    Ok(LeaveServerReply { left })
}
