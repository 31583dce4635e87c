//! Checkpoints of files and trees: their names, and what is owed to the servers for them. Each operation writes an intent; the caller
//! carries it to the servers and then calls [`Namespace::checkpoint_done`].

use std::ops::ControlFlow;

use weft_kv::scan_prefix;
use weft_proto::checkpoint::{
    CheckpointInfo, ListCheckpointsReply, ListCheckpointsRequest, MakeCheckpointRequest,
    RemoveCheckpointRequest, RollBackRequest,
};
use weft_proto::limits::{LIST_PAGE_MAX, NAME_MAX};
use weft_proto::meta::{Credentials, FileKind, Target};

use crate::access::{READ, WRITE, need};
use crate::checkpoints::{existing, record_of};
use crate::edit::Edit;
use crate::error::{MetaError, text};
use crate::intents::{Intent, TreeFile, tree_files};
use crate::namespace::Namespace;
use crate::paths::{not_found, resolve};
use crate::records::Node;
use crate::records::keys::{self, CHECKPOINTS};
use crate::records::record::{
    CHECKPOINT_GOING, CHECKPOINT_MAKING, CHECKPOINT_THERE, CheckpointRecord, CheckpointTaskRecord,
    IntentRecord, LayoutRecord, TASK_DROP, TASK_MAKE, TASK_ROLL_BACK,
};

/// Finds a regular file, or a directory, of which the caller may change the content.
fn writable(edit: &Edit<'_, '_>, who: &Credentials, target: &Target) -> Result<Node, MetaError> {
    let node = resolve(edit.reader(), who, target)?;
    has_checkpoints(&node, &target.path)?;
    if node.inode.frozen.is_some() {
        return Err(MetaError::ReadOnly { id: node.id });
    }
    if node.inode.is_directory() && node.inode.links == 0 {
        return Err(not_found(&target.path));
    }
    need(who, &node.inode, WRITE, &target.path)?;
    Ok(node)
}

fn has_checkpoints(node: &Node, path: &[u8]) -> Result<(), MetaError> {
    match FileKind::try_from(node.inode.kind) {
        Ok(FileKind::Regular | FileKind::Directory) => Ok(()),
        _ => Err(MetaError::Invalid {
            path: text(path),
            reason: "only regular files and directories have checkpoints",
        }),
    }
}

/// A checkpoint's name in messages.
fn shown(path: &[u8], name: &str) -> String {
    format!("{}, checkpoint {name}", text(path))
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
            image: 0,
        }),
    };
    let number = edit.owe(&record)?;
    Ok((number, Intent::from_record(edit.reader(), number, &record)?))
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
        if name.is_empty() || name.contains(['\0', '/']) || name == "." || name == ".." {
            return Err(MetaError::Invalid {
                path: shown(path, name),
                reason: "a checkpoint's name is not empty, not . or .., and holds neither NUL nor '/'",
            });
        }
        self.edit(|edit| {
            let mut node = writable(edit, &request.who, &request.target)?;
            if record_of(edit.reader(), node.id, name.as_bytes())?.is_some() {
                return Err(MetaError::Exists {
                    path: shown(path, name),
                });
            }
            if node.inode.is_directory() {
                let number = edit.make_tree(&node, path, name, now)?;
                return intent_of(edit, number);
            }
            if node.inode.inline {
                edit.need_cells(&mut node)?;
            }
            let (number, intent) = owe(edit, &node, TASK_MAKE, 0, 0, name)?;
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
            edit.put(CHECKPOINTS, &key, &record);
            edit.grow();
            Ok(intent)
        })
    }

    /// Notes that a file, or all below a directory, is to become what it is in a checkpoint.
    pub fn roll_back(&self, now: i64, request: &RollBackRequest) -> Result<Intent, MetaError> {
        let (path, name) = (&request.target.path, &request.name);
        self.edit(|edit| {
            let node = writable(edit, &request.who, &request.target)?;
            let record = existing(edit.reader(), &node, path, name.as_bytes())?;
            if record.image != 0 {
                let (place, of) = ((&node, &path[..]), (&record, name.as_str()));
                let number = edit.roll_back_tree(&request.who, place, of, now)?;
                return intent_of(edit, number);
            }
            let (checkpoint, size) = (record.number, record.size);
            let (number, intent) = owe(edit, &node, TASK_ROLL_BACK, checkpoint, size, name)?;
            edit.open_files().truncated(node.id);
            // As for a truncate: until the servers have done it nobody may believe the size.
            let inode = edit.change(node.id, &node.inode);
            inode.size_exact = false;
            inode.forks_changed |= record.forks || inode.fork_bytes > 0;
            inode.truncate = number;
            inode.size = inode.size.max(size);
            Ok(intent)
        })
    }

    /// Where a rollback is of a directory: the checkpoint's number, and the files with cells in it.
    pub fn tree_of(
        &self,
        request: &RollBackRequest,
    ) -> Result<Option<(u64, Vec<TreeFile>)>, MetaError> {
        let path = &request.target.path;
        self.read(|reader| {
            let node = resolve(reader, &request.who, &request.target)?;
            need(&request.who, &node.inode, WRITE, path)?;
            let record = existing(reader, &node, path, request.name.as_bytes())?;
            if record.image == 0 {
                return Ok(None);
            }
            Ok(Some((record.number, tree_files(reader, record.number)?)))
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
            let mut record = existing(edit.reader(), &node, path, name.as_bytes())?;
            record.state = CHECKPOINT_GOING;
            let key = keys::with_name(node.id, name.as_bytes());
            edit.put(CHECKPOINTS, &key, &record);
            if record.image != 0 {
                let (of, image) = (record.number, record.image);
                let number = edit.owe_tree(node.id, TASK_DROP, of, name, image)?;
                return intent_of(edit, number);
            }
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
            has_checkpoints(&node, &request.target.path)?;
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
            let found = record_of(edit.reader(), record.file, task.name.as_bytes())?;
            let Some(mut checkpoint) = found else {
                return Ok(None);
            };
            if task.task == TASK_DROP {
                edit.delete(CHECKPOINTS, &key);
                return Ok(None);
            }
            let inode = keys::inode(edit.reader(), record.file)?;
            checkpoint.forks |= inode.is_some_and(|i| i.fork_bytes > 0 || !i.size_exact);
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
        image: record.image,
        names: record.names,
    }
}

impl Edit<'_, '_> {
    /// Takes an intent away.
    pub(crate) fn settle(&mut self, number: u64) -> Result<(), MetaError> {
        self.delete(keys::INTENTS, &number.to_be_bytes());
        // Where the counter is damaged a check finds it: that must not keep anything from being settled.
        let counters = self.counters()?;
        counters.intents = counters.intents.saturating_sub(1);
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
        self.cut(number, id, size, now)
    }

    /// As [`Edit::sized`], of one file of several that an intent is about.
    pub(crate) fn cut(
        &mut self,
        number: u64,
        id: u64,
        size: u64,
        now: i64,
    ) -> Result<Option<Node>, MetaError> {
        self.force();
        let Some(inode) = keys::inode(self.reader(), id)? else {
            return Ok(None);
        };
        // A writer may have written behind it; after a restart, one that has not told yet that it is there, or that has died
        // with the service.
        let written_to = self.may_be_written(id) || number < self.namespace().first_intent;
        let inode = self.change(id, &inode);
        let known = !inode.truncate_raced;
        if known {
            inode.size = size;
        }
        inode.note_write(now);
        if inode.truncate == number {
            inode.truncate = 0;
            inode.truncate_raced = false;
            inode.size_exact = known && !written_to && !inode.forks_changed;
        }
        let inode = inode.clone();
        if !inode.size_exact {
            // Its writers may have gone before.
            self.namespace().unsettled.note(id);
        }
        if !known {
            // The stored size is older: a writer who goes without having written must not make it exact.
            self.open_files().wrote(id);
        }
        Ok(Some(Node { id, inode }))
    }

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

    /// Forgets the checkpoints of a file that goes. Where its cells stay, `layout` says on which servers: they are
    /// asked to drop them. Answers whether anything is owed for one of them.
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
            // One that cannot be read may be any.
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

fn intent_of(edit: &Edit<'_, '_>, number: u64) -> Result<Intent, MetaError> {
    let record = keys::intent(edit.reader(), number)?;
    let record = record.ok_or(MetaError::WrongIntent {
        number,
        expected: "checkpoint of a tree",
    })?;
    Intent::from_record(edit.reader(), number, &record)
}
