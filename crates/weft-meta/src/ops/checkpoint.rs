//! Checkpoints of files: their names, and what is owed to the servers for them. Each operation writes an intent; the caller
//! carries it to the servers and then calls [`Namespace::checkpoint_done`].

use std::ops::ControlFlow;

use weft_kv::scan_prefix;
use weft_proto::checkpoint::{
    CheckpointInfo, ListCheckpointsReply, ListCheckpointsRequest, MakeCheckpointRequest,
    RemoveCheckpointRequest, RollBackRequest,
};
use weft_proto::limits::{LIST_PAGE_MAX, NAME_MAX};
use weft_proto::meta::{Credentials, FileKind, Target};

use crate::edit::Edit;
use crate::intents::Intent;
use crate::keys::{self, CHECKPOINTS};
use crate::ops::note_write;
use crate::path::{Node, resolve};
use crate::permission::{READ, WRITE, need, text};
use crate::record::{
    CHECKPOINT_GOING, CHECKPOINT_MAKING, CHECKPOINT_THERE, CheckpointRecord, CheckpointTaskRecord,
    IntentRecord, TASK_DROP, TASK_MAKE, TASK_ROLL_BACK,
};
use crate::{MetaError, Namespace};

/// Finds a regular file of which the caller may change the content.
fn writable(edit: &Edit<'_, '_>, who: &Credentials, target: &Target) -> Result<Node, MetaError> {
    let node = resolve(edit.reader(), who, target)?;
    regular(&node, &target.path)?;
    need(who, &node.inode, WRITE, &target.path)?;
    Ok(node)
}

fn regular(node: &Node, path: &[u8]) -> Result<(), MetaError> {
    match FileKind::try_from(node.inode.kind) {
        Ok(FileKind::Regular) => Ok(()),
        Ok(FileKind::Directory) => Err(MetaError::IsDirectory { path: text(path) }),
        _ => Err(MetaError::Invalid {
            path: text(path),
            reason: "only a regular file has checkpoints",
        }),
    }
}

/// A checkpoint's name in messages.
fn shown(path: &[u8], name: &str) -> String {
    format!("{}, checkpoint {name}", text(path))
}

fn record_of(
    edit: &Edit<'_, '_>,
    id: u64,
    name: &str,
) -> Result<Option<CheckpointRecord>, MetaError> {
    let bytes = edit
        .reader()
        .get(CHECKPOINTS, &keys::with_name(id, name.as_bytes()))?;
    bytes
        .map(|bytes| keys::decode("checkpoint of", id, &bytes))
        .transpose()
}

/// The checkpoint of this name, which all servers have.
fn found(
    edit: &Edit<'_, '_>,
    node: &Node,
    path: &[u8],
    name: &str,
) -> Result<CheckpointRecord, MetaError> {
    let record = record_of(edit, node.id, name)?.filter(|r| r.state == CHECKPOINT_THERE);
    record.ok_or_else(|| MetaError::NotFound {
        path: shown(path, name),
    })
}

fn owe(
    edit: &mut Edit<'_, '_>,
    node: &Node,
    task: i32,
    checkpoint: u64,
    size: u64,
    name: &str,
) -> Result<(u64, Intent), MetaError> {
    let record = IntentRecord {
        file: node.id,
        delete: None,
        truncate: None,
        checkpoint: Some(CheckpointTaskRecord {
            layout: node.inode.layout.clone(),
            task,
            checkpoint,
            size,
            name: name.to_owned(),
        }),
    };
    let number = edit.owe(&record)?;
    Ok((number, Intent::from_record(number, &record)?))
}

impl Namespace {
    /// Notes that a checkpoint is to be made. Its name is taken from now on; it is listed when all servers have it.
    pub fn make_checkpoint(
        &self,
        now: i64,
        request: &MakeCheckpointRequest,
    ) -> Result<Intent, MetaError> {
        let (path, name) = (&request.target.path, &request.name);
        if name.len() > NAME_MAX {
            let length = name.len();
            return Err(MetaError::NameTooLong { length });
        }
        if name.is_empty() || name.contains(['\0', '/']) {
            return Err(MetaError::Invalid {
                path: shown(path, name),
                reason: "a checkpoint's name is not empty and holds neither NUL nor '/'",
            });
        }
        self.edit(|edit| {
            let mut node = writable(edit, &request.who, &request.target)?;
            if node.inode.inline {
                edit.need_cells(&mut node)?;
            }
            if record_of(edit, node.id, name)?.is_some() {
                return Err(MetaError::Exists {
                    path: shown(path, name),
                });
            }
            let (number, intent) = owe(edit, &node, TASK_MAKE, 0, 0, name)?;
            let record = CheckpointRecord {
                number,
                made: now,
                size: 0,
                state: CHECKPOINT_MAKING,
            };
            let key = keys::with_name(node.id, name.as_bytes());
            edit.put(CHECKPOINTS, &key, &record);
            Ok(intent)
        })
    }

    /// Notes that a file is to become what it is in a checkpoint.
    pub fn roll_back(&self, request: &RollBackRequest) -> Result<Intent, MetaError> {
        let (path, name) = (&request.target.path, &request.name);
        self.edit(|edit| {
            let node = writable(edit, &request.who, &request.target)?;
            let record = found(edit, &node, path, name)?;
            let (checkpoint, size) = (record.number, record.size);
            let (number, intent) = owe(edit, &node, TASK_ROLL_BACK, checkpoint, size, name)?;
            edit.open_files().truncated(node.id);
            // As for a truncate: until the servers have done it nobody may believe the size.
            let inode = edit.change(node.id, &node.inode);
            inode.size_exact = false;
            inode.truncate = number;
            Ok(intent)
        })
    }

    /// Notes that a checkpoint is to be dropped; it is no longer listed.
    pub fn remove_checkpoint(
        &self,
        request: &RemoveCheckpointRequest,
    ) -> Result<Intent, MetaError> {
        let (path, name) = (&request.target.path, &request.name);
        self.edit(|edit| {
            let node = writable(edit, &request.who, &request.target)?;
            let mut record = found(edit, &node, path, name)?;
            record.state = CHECKPOINT_GOING;
            let key = keys::with_name(node.id, name.as_bytes());
            edit.put(CHECKPOINTS, &key, &record);
            let (_, intent) = owe(edit, &node, TASK_DROP, record.number, 0, name)?;
            Ok(intent)
        })
    }

    /// One page of a file's checkpoints that all servers have, in the order of their names.
    pub fn list_checkpoints(
        &self,
        request: &ListCheckpointsRequest,
    ) -> Result<ListCheckpointsReply, MetaError> {
        self.read(|reader| {
            let node = resolve(reader, &request.who, &request.target)?;
            regular(&node, &request.target.path)?;
            need(&request.who, &node.inode, READ, &request.target.path)?;
            let mut reply = ListCheckpointsReply::default();
            let mut damaged = None;
            let prefix = node.id.to_be_bytes();
            scan_prefix(reader, CHECKPOINTS, &prefix, &mut |key, value| {
                let name = String::from_utf8_lossy(&key[8..]).into_owned();
                if name.as_bytes() <= request.after.as_bytes() && !request.after.is_empty() {
                    return ControlFlow::Continue(());
                }
                match keys::decode::<CheckpointRecord>("checkpoint of", node.id, value) {
                    Ok(record) if record.state != CHECKPOINT_THERE => ControlFlow::Continue(()),
                    Ok(_) if reply.checkpoints.len() == LIST_PAGE_MAX as usize => {
                        reply.more = true;
                        ControlFlow::Break(())
                    }
                    Ok(record) => {
                        reply.checkpoints.push(info(name, &record));
                        ControlFlow::Continue(())
                    }
                    Err(error) => {
                        damaged = Some(error);
                        ControlFlow::Break(())
                    }
                }
            })?;
            damaged.map_or(Ok(reply), Err)
        })
    }

    /// All servers have done what was owed for a checkpoint. `size` is the file's in it, if it was made. Answers the
    /// checkpoint that was made. Doing it twice changes nothing.
    ///
    /// # Durability
    /// Needs no sync for the same reason as [`Namespace::intent_done`].
    pub fn checkpoint_done(
        &self,
        number: u64,
        size: u64,
        now: i64,
    ) -> Result<Option<CheckpointInfo>, MetaError> {
        self.edit(|edit| {
            let Some(record) = keys::intent(edit.reader(), number)? else {
                return Ok(None);
            };
            let task = record.checkpoint.ok_or(MetaError::WrongIntent {
                number,
                expected: "checkpoint",
            })?;
            if task.task == TASK_ROLL_BACK {
                edit.sized(number, record.file, task.size, now)?;
                return Ok(None);
            }
            edit.settle(number)?;
            let key = keys::with_name(record.file, task.name.as_bytes());
            let Some(mut checkpoint) = record_of(edit, record.file, &task.name)? else {
                return Ok(None);
            };
            if task.task == TASK_DROP {
                edit.delete(CHECKPOINTS, &key);
                return Ok(None);
            }
            checkpoint.size = size;
            checkpoint.state = CHECKPOINT_THERE;
            edit.put(CHECKPOINTS, &key, &checkpoint);
            Ok(Some(info(task.name, &checkpoint)))
        })
    }

    /// Whether an intent is still owed.
    pub fn is_owed(&self, number: u64) -> Result<bool, MetaError> {
        Ok(self.read(|reader| keys::intent(reader, number))?.is_some())
    }

    /// A checkpoint that all servers have.
    pub fn checkpoint_info(
        &self,
        file: u64,
        name: &str,
    ) -> Result<Option<CheckpointInfo>, MetaError> {
        self.read(|reader| {
            let key = keys::with_name(file, name.as_bytes());
            let Some(bytes) = reader.get(CHECKPOINTS, &key)? else {
                return Ok(None);
            };
            let record: CheckpointRecord = keys::decode("checkpoint of", file, &bytes)?;
            Ok((record.state == CHECKPOINT_THERE).then(|| info(name.to_owned(), &record)))
        })
    }
}

fn info(name: String, record: &CheckpointRecord) -> CheckpointInfo {
    CheckpointInfo {
        name,
        number: record.number,
        made: record.made,
        size: record.size,
    }
}

impl Edit<'_, '_> {
    /// Takes an intent away.
    pub(crate) fn settle(&mut self, number: u64) -> Result<(), MetaError> {
        self.delete(keys::INTENTS, &number.to_be_bytes());
        self.counters()?.intents -= 1;
        Ok(())
    }

    /// The servers have set a file's size: takes the intent away, and tells the size as far as it is certain. Answers
    /// the file, if it is still there.
    pub(crate) fn sized(
        &mut self,
        number: u64,
        id: u64,
        size: u64,
        now: i64,
    ) -> Result<Option<Node>, MetaError> {
        self.settle(number)?;
        let Some(inode) = keys::inode(self.reader(), id)? else {
            return Ok(None);
        };
        // A writer may have written behind it; after a restart, one that has not told yet that it is there.
        let written_to = self.may_be_written(id);
        let inode = self.change(id, &inode);
        let known = !inode.truncate_raced;
        if known {
            inode.size = size;
        }
        note_write(inode, now);
        if inode.truncate == number {
            inode.truncate = 0;
            inode.truncate_raced = false;
            inode.size_exact = known && !written_to;
        }
        let inode = inode.clone();
        if !known {
            // The stored size is older: a writer who goes without having written must not make it exact.
            self.open_files().wrote(id);
        }
        Ok(Some(Node { id, inode }))
    }

    /// Forgets the checkpoints of a file that goes.
    pub(crate) fn forget_checkpoints(&mut self, id: u64) -> Result<(), MetaError> {
        let mut names = Vec::new();
        scan_prefix(
            self.reader(),
            CHECKPOINTS,
            &id.to_be_bytes(),
            &mut |key, _| {
                names.push(key.to_vec());
                ControlFlow::Continue(())
            },
        )?;
        for key in names {
            self.delete(CHECKPOINTS, &key);
        }
        Ok(())
    }
}
