//! BeginCoding: adds the intent to make the checkpoint that parity is made of.

use weft_proto::parity::{BeginCodingReply, BeginCodingRequest};

use super::state::state;
use crate::checkpoints::{coding_name, has_later};
use crate::error::{MetaError, text};
use crate::intents::Intent;
use crate::ops::checkpoints::add_task_intent;
use crate::records::Node;
use crate::records::keys::{self, CHECKPOINTS};
use crate::records::record::{
    CHECKPOINT_MAKING, CheckpointRecord, CodingRecord, CodingsRecord, TASK_MAKE,
};
use crate::tx::Volume;

pub(crate) fn begin_coding(
    volume: &Volume,
    now: i64,
    request: BeginCodingRequest,
) -> Result<Intent, MetaError> {
    let id = request.file;
    let refuse = |reason| MetaError::Invalid {
        path: text(format!("file {id}").as_bytes()),
        reason,
    };
    volume.transact(|tx| {
        let inode = keys::inode(tx.reader(), id)?.ok_or(MetaError::Stale { id })?;
        let Some(layout) = inode.layout.clone().filter(|layout| layout.parity != 0) else {
            return Err(refuse("it has no parity"));
        };
        if inode.frozen.is_some() || inode.inline || inode.links == 0 {
            return Err(refuse("it has no cells to code"));
        }
        let mut codings = inode.codings.clone().unwrap_or_default();
        if let Some(done) = &codings.done
            && has_later(tx.reader(), id, done.checkpoint)?
        {
            return Err(refuse("checkpoints need what is coded now"));
        }
        if let Some(left) = codings.begun.take() {
            tx.end_coding(id, &left, &layout)?;
        }
        let parity_file = tx.next_id()?;
        let (node, name) = (Node { id, inode }, coding_name(parity_file));
        let (number, intent) = add_task_intent(tx, &node, TASK_MAKE, 0, 0, &name)?;
        let record = CheckpointRecord {
            number,
            made: now,
            state: CHECKPOINT_MAKING,
            ..CheckpointRecord::default()
        };
        tx.put(CHECKPOINTS, &keys::with_name(id, name.as_bytes()), &record);
        tx.add_parity_file(parity_file, id);
        let begun = CodingRecord {
            checkpoint: number,
            parity_file,
            shape: layout.parity,
            primaries: Vec::new(),
            written: node.inode.written,
            modified: node.inode.modified,
            size: node.inode.size,
        };
        let done = codings.done;
        tx.change(id, &node.inode).codings = Some(CodingsRecord {
            done,
            begun: Some(begun),
        });
        Ok(intent)
    })
}

/// The answer when all servers have the checkpoint.
pub(crate) fn coding_begun(volume: &Volume, file: u64) -> Result<BeginCodingReply, MetaError> {
    volume.read(|reader| {
        let inode = keys::inode(reader, file)?.ok_or(MetaError::Stale { id: file })?;
        let state = state(reader, &Node { id: file, inode })?;
        let state = state.ok_or(MetaError::Stale { id: file })?;
        Ok(BeginCodingReply { state })
    })
}
