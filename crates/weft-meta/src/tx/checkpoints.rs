//! Checkpoints: work owed for those of a tree, and those of a file that is removed.

use std::ops::ControlFlow;

use weft_kv::scan_prefix;

use super::transaction::Tx;
use crate::error::{MetaError, text};
use crate::records::keys::{self, CHECKPOINTS};
use crate::records::record::{
    CHECKPOINT_GOING, CHECKPOINT_THERE, CheckpointRecord, CheckpointTaskRecord, IntentRecord,
    LayoutRecord, TASK_DROP,
};

impl Tx<'_, '_> {
    /// Owes the servers something about a checkpoint of a tree.
    pub(crate) fn owe_tree(
        &mut self,
        directory: u64,
        task: i32,
        checkpoint: u64,
        name: &str,
        image: u64,
    ) -> Result<u64, MetaError> {
        self.owe(&IntentRecord {
            file: directory,
            delete: None,
            truncate: None,
            checkpoint: Some(CheckpointTaskRecord {
                layout: None,
                task,
                checkpoint,
                size: 0,
                name: name.to_owned(),
                image,
            }),
        })
    }

    /// Removes the checkpoints of a file that is removed. Where its cells stay, `layout` says on
    /// which servers: they are asked to drop the checkpoints. Answers whether anything is owed for
    /// one of them.
    pub(crate) fn forget_checkpoints(
        &mut self,
        id: u64,
        layout: Option<&LayoutRecord>,
    ) -> Result<bool, MetaError> {
        let (mut found, mut owed) = (Vec::new(), false);
        let prefix = id.to_be_bytes();
        scan_prefix(self.reader(), CHECKPOINTS, &prefix, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        for (key, value) in found {
            self.delete(CHECKPOINTS, &key);
            let record = keys::decode::<CheckpointRecord>("checkpoint of", id, &value);
            // An unreadable one may be in any state.
            owed |= record
                .as_ref()
                .map_or(true, |r| r.state != CHECKPOINT_THERE);
            let Some(layout) = layout else {
                continue;
            };
            let record = record?;
            if record.state == CHECKPOINT_GOING {
                continue;
            }
            self.owe(&IntentRecord {
                file: id,
                delete: None,
                truncate: None,
                checkpoint: Some(CheckpointTaskRecord {
                    layout: Some(layout.clone()),
                    task: TASK_DROP,
                    checkpoint: record.number,
                    size: 0,
                    name: text(&key[8..]),
                    image: 0,
                }),
            })?;
        }
        Ok(owed)
    }
}
