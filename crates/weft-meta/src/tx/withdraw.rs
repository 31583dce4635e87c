//! Giving up an intent that a server refuses for good.

use super::transaction::Tx;
use crate::checkpoints::held_files;
use crate::error::MetaError;
use crate::intents::is_tree;
use crate::records::keys::{self, CHECKPOINTS};
use crate::records::record::{
    CHECKPOINT_GOING, CheckpointRecord, CheckpointTaskRecord, IntentRecord, TASK_DROP, TASK_MAKE,
    TASK_ROLL_BACK,
};

impl Tx<'_, '_> {
    pub(crate) fn withdraw(&mut self, number: u64) -> Result<Option<&'static str>, MetaError> {
        let Some(record) = keys::intent(self.reader(), number)? else {
            return Ok(None);
        };
        let of_tree = is_tree(&record);
        match (record.truncate, record.checkpoint) {
            (Some(_), None) => {
                self.settle(number)?;
                self.untruncated(number, record.file)?;
                Ok(Some(
                    "not truncated: the file is as long as its servers say",
                ))
            }
            (None, Some(task)) if task.task == TASK_ROLL_BACK => {
                self.settle(number)?;
                if of_tree {
                    for (file, _) in held_files(self.reader(), task.checkpoint)? {
                        self.untruncated(number, file)?;
                    }
                } else {
                    self.untruncated(number, record.file)?;
                }
                Ok(Some(
                    "not rolled back: the cells are as the servers have them",
                ))
            }
            (None, Some(task)) if task.task == TASK_MAKE => {
                self.settle(number)?;
                self.unmake(number, record.file, task)?;
                Ok(Some("not made: what servers have of it is dropped"))
            }
            _ => Ok(None),
        }
    }

    /// The size is not set: the servers are asked for it.
    fn untruncated(&mut self, number: u64, file: u64) -> Result<(), MetaError> {
        let Some(inode) = keys::inode(self.reader(), file)? else {
            return Ok(());
        };
        if inode.truncate != number {
            return Ok(());
        }
        let inode = self.change(file, &inode);
        (inode.truncate, inode.truncate_raced, inode.size_exact) = (0, false, false);
        // Its writers know as little of the size.
        self.open_files().wrote(file);
        self.state().unsettled().note(file);
        Ok(())
    }

    fn unmake(
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
        self.owe(&IntentRecord {
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
