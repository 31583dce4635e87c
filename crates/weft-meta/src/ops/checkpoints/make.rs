//! MakeCheckpoint: adds the intent to make a checkpoint of a file or a tree.

use weft_proto::checkpoint::MakeCheckpointRequest;
use weft_proto::limits::NAME_MAX;

use super::common::{add_task_intent, intent_of, shown, writable_file};
use super::tree_make::make_tree;
use crate::checkpoints::record_of;
use crate::error::MetaError;
use crate::intents::Intent;
use crate::records::keys::{self, CHECKPOINTS};
use crate::records::record::{CHECKPOINT_MAKING, CheckpointRecord, TASK_MAKE};
use crate::tx::Volume;

pub(crate) fn make_checkpoint(
    volume: &Volume,
    now: i64,
    request: &MakeCheckpointRequest,
) -> Result<Intent, MetaError> {
    let (path, name) = (&request.target.path, &request.name);
    if name.len() > NAME_MAX {
        let length = name.len();
        return Err(MetaError::NameTooLong { length });
    }
    if name.is_empty() || name.contains(['\0', '/']) || name == "." || name == ".." {
        return Err(MetaError::Invalid {
            path: shown(path, name),
            reason: "a checkpoint's name is not empty, not . or .., and holds neither NUL nor '/'",
        });
    }
    volume.transact(|tx| {
        let mut node = writable_file(tx, &request.who, &request.target)?;
        if record_of(tx.reader(), node.id, name.as_bytes())?.is_some() {
            return Err(MetaError::Exists {
                path: shown(path, name),
            });
        }
        if node.inode.is_directory() {
            let number = make_tree(tx, &node, path, name, now)?;
            return intent_of(tx, number);
        }
        if node.inode.inline {
            tx.require_cells(&mut node)?;
        }
        let (number, intent) = add_task_intent(tx, &node, TASK_MAKE, 0, 0, name)?;
        let record = CheckpointRecord {
            number,
            made: now,
            size: 0,
            state: CHECKPOINT_MAKING,
            image: 0,
            names: 0,
            forks: node.inode.fork_bytes > 0 || !node.inode.size_exact,
        };
        let key = keys::with_name(node.id, name.as_bytes());
        tx.put(CHECKPOINTS, &key, &record);
        tx.grow();
        Ok(intent)
    })
}
