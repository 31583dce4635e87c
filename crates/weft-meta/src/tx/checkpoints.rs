//! Checkpoints: intents about those of a tree, and removing those of a removed file.

use std::ops::ControlFlow;

use weft_kv::scan_prefix;

use super::transaction::Tx;
use crate::checkpoints::is_coding_name;
use crate::error::{MetaError, text};
use crate::records::keys::{self, CHECKPOINTS};
use crate::records::record::{
    CHECKPOINT_GOING, CHECKPOINT_THERE, CheckpointRecord, CheckpointTaskRecord, IntentRecord,
    LayoutRecord, TASK_DROP,
};

impl Tx<'_, '_> {
    /// Adds an intent about a checkpoint of a tree.
    pub(crate) fn add_tree_intent(
        &mut self,
        directory: u64,
        task: i32,
        checkpoint: u64,
        name: &str,
        image: u64,
    ) -> Result<u64, MetaError> {
        self.add_intent(&IntentRecord {
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

    /// Removes the checkpoints of a file that is removed. Where its cells stay, `layout` names
    /// their servers, and intents to drop the checkpoints are added. Returns whether an intent is
    /// pending for one of the checkpoints.
    pub(crate) fn forget_checkpoints(
        &mut self,
        id: u64,
        layout: Option<&LayoutRecord>,
    ) -> Result<bool, MetaError> {
        let (mut found, mut pending) = (Vec::new(), false);
        let prefix = id.to_be_bytes();
        scan_prefix(self.reader(), CHECKPOINTS, &prefix, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        for (key, value) in found {
            if layout.is_some() && is_coding_name(&key[8..]) {
                // Checkpoints of trees may share what is coded.
                continue;
            }
            self.delete(CHECKPOINTS, &key);
            let record = keys::decode::<CheckpointRecord>("checkpoint of", id, &value);
            // An unreadable record may have any state.
            pending |= record
                .as_ref()
                .map_or(true, |r| r.state != CHECKPOINT_THERE);
            let Some(layout) = layout else {
                continue;
            };
            let record = record?;
            if record.state == CHECKPOINT_GOING {
                continue;
            }
            self.add_intent(&IntentRecord {
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
        Ok(pending)
    }
}
