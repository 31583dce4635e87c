//! Heartbeat: a server is up, and reports how much of its store is durable.

use weft_proto::meta::{HeartbeatReply, HeartbeatRequest};

use super::store_record::store_record;
use crate::error::MetaError;
use crate::limits::ADDRESS_MAX;
use crate::records::keys::SERVERS;
use crate::servers::Heartbeat;
use crate::tx::Volume;

pub(crate) fn heartbeat(
    volume: &Volume,
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
    let servers = volume.state().servers().changing();
    let service = volume.state().incarnations().durable();
    let report = servers.table().receive_replica(now, request)?;
    if let Some(report) = report {
        let replica = request.replica;
        if let Some((record, moves)) = report.update {
            let (term, in_sync) = (record.term, record.in_sync.clone());
            store_record(volume, &servers, id, record, moves)?;
            tracing::info!(server = id, replica, term, ?in_sync, "replica started");
        }
        if report.is_emptied {
            return servers.table().refuse_emptied(now, request, service);
        }
        if !report.is_primary {
            return servers.table().answer_backup(id, service);
        }
    }
    let received = servers.table().receive(now, request, service)?;
    let update = match received {
        Heartbeat::Refused(reply) => return Ok(reply),
        Heartbeat::Accepted(update) => update,
    };
    if let Some(update) = update {
        // No client may see the new epoch before it is durable.
        let (epoch, record) = volume.transact(|tx| {
            let counters = tx.counters()?;
            if update.raises_epoch() {
                counters.epoch += 1;
            }
            let (epoch, record) = (counters.epoch, update.record(counters.next_id));
            tx.put(SERVERS, &id.to_be_bytes(), &record);
            Ok((epoch, record))
        })?;
        volume.state().kv().sync()?;
        if update.has_moved() {
            tracing::info!(server = id, address = %request.address, epoch, "server moved");
        }
        if update.is_reformatted() {
            let since = record.since;
            tracing::warn!(
                server = id,
                since,
                "the server was formatted again: its data of files with smaller ids is lost"
            );
        }
        servers.table().store(id, record, epoch);
    }
    servers.table().note_up(now, request, service)
}
