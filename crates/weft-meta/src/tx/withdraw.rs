//! Cancelling an intent that a server refuses permanently.

use super::transaction::Tx;
use crate::checkpoints::checkpoint_files;
use crate::error::MetaError;
use crate::intents::is_tree;
use crate::records::keys::{self, CHECKPOINTS};
use crate::records::record::{
    CHECKPOINT_GOING, CheckpointRecord, CheckpointTaskRecord, IntentRecord, TASK_DROP, TASK_MAKE,
    TASK_ROLL_BACK,
};

impl Tx<'_, '_> {
    /// Cancels a truncate, a rollback or the making of a checkpoint; returns the consequence in
    /// words. `None` for other intents, and where there is none of this number.
    pub(crate) fn withdraw(&mut self, number: u64) -> Result<Option<&'static str>, MetaError> {
        let Some(record) = keys::intent(self.reader(), number)? else {
            return Ok(None);
        };
        let of_tree = is_tree(&record);
        match (record.truncate, record.checkpoint) {
            (Some(_), None) => {
                self.complete_intent(number)?;
                self.cancel_truncate(number, record.file)?;
                Ok(Some(
                    "not truncated: the file has the size that its servers report",
                ))
            }
            (None, Some(task)) if task.task == TASK_ROLL_BACK => {
                self.complete_intent(number)?;
                if of_tree {
                    for (file, _) in checkpoint_files(self.reader(), task.checkpoint)? {
                        self.cancel_truncate(number, file)?;
                    }
                } else {
                    self.cancel_truncate(number, record.file)?;
                }
                Ok(Some(
                    "not rolled back: the cells stay as the servers have them",
                ))
            }
            (None, Some(task)) if task.task == TASK_MAKE => {
                self.complete_intent(number)?;
                self.cancel_make(number, record.file, task)?;
                Ok(Some("not made: servers that have it drop it"))
            }
            // Deletes, drops and intents that are damaged.
            (None | Some(_), Some(_)) | (None, None) => Ok(None),
        }
    }

    /// Cancels the truncate of a file: the servers are asked for its size.
    fn cancel_truncate(&mut self, number: u64, file: u64) -> Result<(), MetaError> {
        let Some(inode) = keys::inode(self.reader(), file)? else {
            return Ok(());
        };
        if inode.truncate != number {
            return Ok(());
        }
        let inode = self.change(file, &inode);
        (inode.truncate, inode.truncate_raced, inode.size_exact) = (0, false, false);
        // Its writers do not know the size either.
        self.open_files().wrote(file);
        self.state().unknown_sizes().note(file);
        Ok(())
    }

    fn cancel_make(
        &mut self,
        number: u64,
        file: u64,
        task: CheckpointTaskRecord,
    ) -> Result<(), MetaError> {
        let key = keys::with_name(file, task.name.as_bytes());
        let found = self.reader().get(CHECKPOINTS, &key)?;
        let Some(found) = found else {
            return Ok(());
        };
        let mut found: CheckpointRecord = keys::decode("checkpoint of", file, &found)?;
        if found.number != number {
            return Ok(());
        }
        found.state = CHECKPOINT_GOING;
        self.put(CHECKPOINTS, &key, &found);
        self.add_intent(&IntentRecord {
            file,
            delete: None,
            truncate: None,
            checkpoint: Some(CheckpointTaskRecord {
                task: TASK_DROP,
                checkpoint: number,
                ..task
            }),
        })?;
        Ok(())
    }
}
