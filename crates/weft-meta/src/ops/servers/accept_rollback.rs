//! AcceptRollback: accepts a server with an older store.

use crate::error::MetaError;
use crate::records::keys::SERVERS;
use crate::records::record::ServerRecord;
use crate::tx::Volume;

pub(crate) fn accept_rollback(volume: &Volume, id: u32) -> Result<bool, MetaError> {
    let servers = volume.state().servers().changing();
    let known = servers.table().record(id)?.clone();
    let record = volume.transact(|tx| {
        let doubt = tx.counters()?.next_id;
        let record = ServerRecord {
            doubt,
            ..known.clone()
        };
        tx.put(SERVERS, &id.to_be_bytes(), &record);
        Ok(record)
    })?;
    servers.table().accept_rollback(id, record)
}
