//! Stores a changed record of a server, durably, before anybody sees the change.

use crate::error::MetaError;
use crate::records::keys::SERVERS;
use crate::records::record::ServerRecord;
use crate::servers::ServerTable;
use crate::tx::Volume;

/// The caller holds the table's lock, so that no client may see the change before it is durable.
/// Such changes are rare.
pub(super) fn store_record(
    volume: &Volume,
    table: &mut ServerTable,
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
    table.store(id, record, epoch);
    Ok(epoch)
}
