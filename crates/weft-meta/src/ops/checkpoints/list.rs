//! ListCheckpoints: a file's checkpoints by name.

use std::ops::ControlFlow;

use weft_kv::scan_prefix;
use weft_proto::checkpoint::{CheckpointInfo, ListCheckpointsReply, ListCheckpointsRequest};
use weft_proto::limits::LIST_PAGE_MAX;

use super::common::{info, need_kind};
use crate::access::{READ, need};
use crate::checkpoints::is_coding_name;
use crate::error::MetaError;
use crate::paths::resolve;
use crate::records::keys::{self, CHECKPOINTS};
use crate::records::record::{CHECKPOINT_THERE, CheckpointRecord};
use crate::tx::Volume;

pub(crate) fn list_checkpoints(
    volume: &Volume,
    request: &ListCheckpointsRequest,
) -> Result<ListCheckpointsReply, MetaError> {
    volume.read(|reader| {
        let node = resolve(reader, &request.who, &request.target)?;
        need_kind(&node, &request.target.path)?;
        need(&request.who, &node.inode, READ, &request.target.path)?;
        let mut reply = ListCheckpointsReply::default();
        let mut damaged = None;
        let prefix = node.id.to_be_bytes();
        scan_prefix(reader, CHECKPOINTS, &prefix, &mut |key, value| {
            let name = String::from_utf8_lossy(&key[8..]).into_owned();
            if name.as_bytes() <= request.after.as_bytes() && !request.after.is_empty() {
                return ControlFlow::Continue(());
            }
            match keys::decode::<CheckpointRecord>("checkpoint of", node.id, value) {
                Ok(record)
                    if record.state != CHECKPOINT_THERE || is_coding_name(name.as_bytes()) =>
                {
                    ControlFlow::Continue(())
                }
                Ok(_) if reply.checkpoints.len() == LIST_PAGE_MAX as usize => {
                    reply.more = true;
                    ControlFlow::Break(())
                }
                Ok(record) => {
                    reply.checkpoints.push(info(name, &record));
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    damaged = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        damaged.map_or(Ok(reply), Err)
    })
}

pub(crate) fn checkpoint_info(
    volume: &Volume,
    file: u64,
    name: &str,
) -> Result<Option<CheckpointInfo>, MetaError> {
    volume.read(|reader| {
        let key = keys::with_name(file, name.as_bytes());
        let Some(bytes) = reader.get(CHECKPOINTS, &key)? else {
            return Ok(None);
        };
        let record: CheckpointRecord = keys::decode("checkpoint of", file, &bytes)?;
        Ok((record.state == CHECKPOINT_THERE).then(|| info(name.to_owned(), &record)))
    })
}
