//! The completion of an intent about a checkpoint of a file.

use weft_proto::checkpoint::CheckpointInfo;

use super::common::info;
use crate::checkpoints::record_of;
use crate::error::MetaError;
use crate::records::keys::{self, CHECKPOINTS};
use crate::records::record::{CHECKPOINT_THERE, TASK_DROP, TASK_ROLL_BACK};
use crate::tx::Volume;

pub(crate) fn checkpoint_done(
    volume: &Volume,
    number: u64,
    size: u64,
    now: i64,
) -> Result<Option<CheckpointInfo>, MetaError> {
    volume.transact(|tx| {
        let Some(record) = keys::intent(tx.reader(), number)? else {
            return Ok(None);
        };
        let task = record.checkpoint.ok_or(MetaError::WrongIntent {
            number,
            expected: "checkpoint",
        })?;
        if task.task == TASK_ROLL_BACK {
            tx.complete_truncate(number, record.file, task.size, now)?;
            return Ok(None);
        }
        tx.complete_intent(number)?;
        let key = keys::with_name(record.file, task.name.as_bytes());
        let found = record_of(tx.reader(), record.file, task.name.as_bytes())?;
        let Some(mut checkpoint) = found else {
            return Ok(None);
        };
        if task.task == TASK_DROP {
            tx.delete(CHECKPOINTS, &key);
            return Ok(None);
        }
        let inode = keys::inode(tx.reader(), record.file)?;
        checkpoint.forks |= inode.is_some_and(|i| i.fork_bytes > 0 || !i.size_exact);
        checkpoint.size = size;
        checkpoint.state = CHECKPOINT_THERE;
        tx.put(CHECKPOINTS, &key, &checkpoint);
        Ok(Some(info(task.name, &checkpoint)))
    })
}

pub(crate) fn is_pending(volume: &Volume, number: u64) -> Result<bool, MetaError> {
    Ok(volume
        .read(|reader| keys::intent(reader, number))?
        .is_some())
}
