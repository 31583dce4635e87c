//! RemoveCheckpoint: removes a checkpoint from the list and adds the intent to drop it.

use weft_proto::checkpoint::RemoveCheckpointRequest;

use super::common::{add_task_intent, intent_of, writable_file};
use crate::checkpoints::existing;
use crate::error::MetaError;
use crate::intents::Intent;
use crate::records::keys::{self, CHECKPOINTS};
use crate::records::record::{CHECKPOINT_GOING, TASK_DROP};
use crate::tx::Volume;

pub(crate) fn remove_checkpoint(
    volume: &Volume,
    request: &RemoveCheckpointRequest,
) -> Result<Intent, MetaError> {
    let (path, name) = (&request.target.path, &request.name);
    volume.transact(|tx| {
        let node = writable_file(tx, &request.who, &request.target)?;
        let mut record = existing(tx.reader(), &node, path, name.as_bytes())?;
        record.state = CHECKPOINT_GOING;
        let key = keys::with_name(node.id, name.as_bytes());
        tx.put(CHECKPOINTS, &key, &record);
        if record.image != 0 {
            let (of, image) = (record.number, record.image);
            let number = tx.add_tree_intent(node.id, TASK_DROP, of, name, image)?;
            return intent_of(tx, number);
        }
        let (_, intent) = add_task_intent(tx, &node, TASK_DROP, record.number, 0, name)?;
        Ok(intent)
    })
}
