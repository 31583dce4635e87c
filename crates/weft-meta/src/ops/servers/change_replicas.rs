//! ChangeReplicas: a replica joins or leaves those that are in sync, or takes the primary's place.

use weft_proto::meta::{ChangeReplicasReply, ChangeReplicasRequest};

use super::store_record::store_record;
use crate::error::MetaError;
use crate::tx::Volume;

pub(crate) fn change_replicas(
    volume: &Volume,
    request: &ChangeReplicasRequest,
) -> Result<ChangeReplicasReply, MetaError> {
    let id = request.server;
    let servers = volume.state().servers().changing();
    let change = servers.table().change_replicas(request)?;
    let changed = change.is_some();
    if let Some((record, raises_epoch)) = change {
        tracing::info!(
            server = id,
            caller = request.caller,
            change = ?request.change(),
            replica = request.replica,
            term = record.term,
            in_sync = ?record.in_sync,
            "replicas in sync changed"
        );
        store_record(volume, &servers, id, record, raises_epoch)?;
    }
    let set = servers.table().replica_set(id)?;
    let set = set.ok_or(MetaError::UnknownServer { server: id })?;
    Ok(ChangeReplicasReply { set, changed })
}
