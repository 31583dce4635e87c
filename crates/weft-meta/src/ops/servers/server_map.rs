//! ServerMap: the servers, and the state of the volume.

use weft_proto::meta::ServerMapReply;

use crate::error::MetaError;
use crate::records::keys;
use crate::tx::Volume;

pub(crate) fn server_map(volume: &Volume, now: i64) -> Result<ServerMapReply, MetaError> {
    let counters = keys::counters(&*volume.state().kv().snapshot()?)?;
    let (epoch, servers) = volume.state().servers().read().describe(now);
    Ok(ServerMapReply {
        epoch,
        servers,
        files: counters.files,
        intents: counters.intents,
        volume: volume.state().volume().name.clone(),
        rolled_back: false,
        recovering: volume.state().grace().is_active(),
    })
}
