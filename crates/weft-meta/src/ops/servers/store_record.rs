//! Stores a changed record of a server, durably, before anybody sees the change.

use crate::error::MetaError;
use crate::records::keys::SERVERS;
use crate::records::record::ServerRecord;
use crate::servers::ChangingServers;
use crate::tx::Volume;

/// Such changes are rare.
pub(super) fn store_record(
    volume: &Volume,
    servers: &ChangingServers<'_>,
    id: u32,
    record: ServerRecord,
    raises_epoch: bool,
) -> Result<u64, MetaError> {
    let epoch = volume.transact(|tx| {
        let counters = tx.counters()?;
        counters.epoch += u64::from(raises_epoch);
        let epoch = counters.epoch;
        tx.put(SERVERS, &id.to_be_bytes(), &record);
        Ok(epoch)
    })?;
    volume.state().kv().sync()?;
    servers.table().store(id, record, epoch);
    Ok(epoch)
}
