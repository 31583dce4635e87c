//! The parity of files: hidden checkpoints and parity files, made and removed with what needs them.

use super::transaction::Tx;
use crate::checkpoints::coding_name;
use crate::error::MetaError;
use crate::records::keys::{CHECKPOINTS, PARITY, with_name};
use crate::records::record::{
    CHECKPOINT_GOING, CheckpointRecord, CheckpointTaskRecord, CodingRecord, CodingsRecord,
    DeleteRecord, IntentRecord, LayoutRecord, ParityRecord, TASK_DROP,
};

impl Tx<'_, '_> {
    /// Notes that a new file holds parity of another one.
    pub(crate) fn add_parity_file(&mut self, parity_file: u64, file: u64) {
        self.put(PARITY, &parity_file.to_be_bytes(), &ParityRecord { file });
        self.grow();
    }

    /// Removes the parity files of a file that is deleted, or of which nothing is left.
    pub(crate) fn delete_parity(
        &mut self,
        codings: &CodingsRecord,
        layout: &LayoutRecord,
    ) -> Result<(), MetaError> {
        for coding in [&codings.done, &codings.begun].into_iter().flatten() {
            self.delete_parity_file(coding, layout)?;
        }
        Ok(())
    }

    fn delete_parity_file(
        &mut self,
        coding: &CodingRecord,
        layout: &LayoutRecord,
    ) -> Result<(), MetaError> {
        self.delete(PARITY, &coding.parity_file.to_be_bytes());
        self.add_intent(&IntentRecord {
            file: coding.parity_file,
            delete: Some(DeleteRecord {
                servers: layout.servers.clone(),
            }),
            truncate: None,
            checkpoint: None,
        })?;
        Ok(())
    }

    /// Removes one coding of a file that stays: its parity file and its checkpoint.
    pub(crate) fn end_coding(
        &mut self,
        file: u64,
        coding: &CodingRecord,
        layout: &LayoutRecord,
    ) -> Result<(), MetaError> {
        self.delete_parity_file(coding, layout)?;
        let name = coding_name(coding.parity_file);
        let record = CheckpointRecord {
            number: coding.checkpoint,
            state: CHECKPOINT_GOING,
            ..CheckpointRecord::default()
        };
        self.put(CHECKPOINTS, &with_name(file, name.as_bytes()), &record);
        self.add_intent(&IntentRecord {
            file,
            delete: None,
            truncate: None,
            checkpoint: Some(CheckpointTaskRecord {
                layout: Some(layout.clone()),
                task: TASK_DROP,
                checkpoint: coding.checkpoint,
                size: 0,
                name,
                image: 0,
            }),
        })?;
        Ok(())
    }
}
