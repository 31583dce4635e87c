//! ListFileCheckpoints: the checkpoints of the files in a directory.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use weft_kv::{Reader, prefix_end, scan_prefix};
use weft_proto::checkpoint::{
    FileCheckpoint, ListFileCheckpointsReply, ListFileCheckpointsRequest,
};
use weft_proto::meta::FileKind;

use crate::access::{READ, may, need};
use crate::checkpoints::is_coding_name;
use crate::error::{MetaError, text};
use crate::limits::{CHECKPOINTS_NAMES_MAX, CHECKPOINTS_PAGE};
use crate::paths::resolve;
use crate::records::keys::{self, CHECKPOINTS, ENTRIES};
use crate::records::record::{CHECKPOINT_THERE, CheckpointRecord, EntryRecord};
use crate::tx::Volume;

pub(crate) fn list_file_checkpoints(
    volume: &Volume,
    request: &ListFileCheckpointsRequest,
) -> Result<ListFileCheckpointsReply, MetaError> {
    let (who, path) = (&request.who, &request.target.path);
    volume.read(|reader| {
        let node = resolve(reader, who, &request.target)?;
        if !node.inode.is_directory() {
            return Err(MetaError::NotDirectory { path: text(path) });
        }
        need(who, &node.inode, READ, path)?;
        let names = page(reader, node.id, &request.after)?;
        let full = names.len() == CHECKPOINTS_NAMES_MAX;
        let mut reply = ListFileCheckpointsReply::default();
        let mut last = None;
        for (name, entry) in names {
            last = Some(Bytes::from(name.clone()));
            if entry.kind != FileKind::Regular as i32 {
                continue;
            }
            let found = checkpoints(reader, entry.id)?;
            if found.is_empty() || !may(who, &keys::named_inode(reader, entry.id)?, READ) {
                continue;
            }
            let file = Bytes::from(name);
            let rows = found.into_iter().map(|name| FileCheckpoint {
                file: file.clone(),
                name,
            });
            reply.checkpoints.extend(rows);
            if reply.checkpoints.len() >= CHECKPOINTS_PAGE {
                reply.next = last;
                return Ok(reply);
            }
        }
        reply.next = last.filter(|_| full);
        Ok(reply)
    })
}

fn page(
    reader: &dyn Reader,
    directory: u64,
    after: &[u8],
) -> Result<Vec<(Vec<u8>, EntryRecord)>, MetaError> {
    let (mut names, mut damaged) = (Vec::new(), None);
    let from = keys::with_name(directory, after);
    let to = prefix_end(&directory.to_be_bytes());
    let to = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut visit = |key: &[u8], value: &[u8]| {
        match keys::decode("entry in", directory, value) {
            Ok(entry) => names.push((key[8..].to_vec(), entry)),
            Err(error) => damaged = Some(error),
        }
        if damaged.is_some() || names.len() == CHECKPOINTS_NAMES_MAX {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    reader.scan(ENTRIES, Bound::Excluded(&from), to, &mut visit)?;
    damaged.map_or(Ok(names), Err)
}

fn checkpoints(reader: &dyn Reader, id: u64) -> Result<Vec<String>, MetaError> {
    let (mut names, mut damaged) = (Vec::new(), None);
    scan_prefix(
        reader,
        CHECKPOINTS,
        &id.to_be_bytes(),
        &mut |key, value| match keys::decode::<CheckpointRecord>("checkpoint of", id, value) {
            Ok(record) => {
                if record.state == CHECKPOINT_THERE && !is_coding_name(&key[8..]) {
                    names.push(text(&key[8..]));
                }
                match names.len() {
                    CHECKPOINTS_PAGE => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            }
            Err(error) => {
                damaged = Some(error);
                ControlFlow::Break(())
            }
        },
    )?;
    damaged.map_or(Ok(names), Err)
}
