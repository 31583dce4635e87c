//! RollBack: adds the intent to roll a file, or everything below a directory, back to a checkpoint.

use weft_proto::checkpoint::RollBackRequest;

use super::common::{add_task_intent, intent_of, writable_file};
use super::tree_roll_back::roll_back_tree;
use crate::access::{WRITE, need};
use crate::checkpoints::existing;
use crate::error::MetaError;
use crate::intents::{Intent, TreeFile, tree_files};
use crate::paths::resolve;
use crate::records::record::TASK_ROLL_BACK;
use crate::tx::Volume;

pub(crate) fn roll_back(
    volume: &Volume,
    now: i64,
    request: &RollBackRequest,
) -> Result<Intent, MetaError> {
    let (path, name) = (&request.target.path, &request.name);
    volume.transact(|tx| {
        let node = writable_file(tx, &request.who, &request.target)?;
        let record = existing(tx.reader(), &node, path, name.as_bytes())?;
        if record.image != 0 {
            let (place, of) = ((&node, &path[..]), (&record, name.as_str()));
            let number = roll_back_tree(tx, &request.who, place, of, now)?;
            return intent_of(tx, number);
        }
        let (checkpoint, size) = (record.number, record.size);
        let (number, intent) = add_task_intent(tx, &node, TASK_ROLL_BACK, checkpoint, size, name)?;
        tx.open_files().truncated(node.id);
        // As for a truncate, the size must not be trusted until the intent is completed.
        let inode = tx.change(node.id, &node.inode);
        inode.size_exact = false;
        inode.forks_changed |= record.forks || inode.fork_bytes > 0;
        inode.truncate = number;
        inode.size = inode.size.max(size);
        Ok(intent)
    })
}

pub(crate) fn tree_of(
    volume: &Volume,
    request: &RollBackRequest,
) -> Result<Option<(u64, Vec<TreeFile>)>, MetaError> {
    let path = &request.target.path;
    volume.read(|reader| {
        let node = resolve(reader, &request.who, &request.target)?;
        need(&request.who, &node.inode, WRITE, path)?;
        let record = existing(reader, &node, path, request.name.as_bytes())?;
        if record.image == 0 {
            return Ok(None);
        }
        Ok(Some((record.number, tree_files(reader, record.number)?)))
    })
}
