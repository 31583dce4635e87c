//! An intent: pending work for the I/O servers, which is written with the change that causes it and
//! removed when every server has done it.

use weft_kv::Reader;
use weft_layout::{FileId, Layout, ServerId};

use crate::checkpoints::checkpoint_files;
use crate::error::MetaError;
use crate::records::record::{IntentRecord, TASK_DROP, TASK_MAKE, TASK_ROLL_BACK};
use crate::records::{keys, layout_of};

/// Pending work for I/O servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Delete a file's cells.
    Delete {
        /// The intent, and the operation's number for the servers.
        number: u64,
        /// The file.
        file: FileId,
        /// The servers that may have cells of it.
        servers: Vec<ServerId>,
    },
    /// Set a file's size.
    Truncate {
        /// The intent, and the operation's number for the servers.
        number: u64,
        /// The file.
        file: FileId,
        /// Where its cells are.
        layout: Layout,
        /// The new size in canonical order.
        size: u64,
    },
    /// Make, drop or roll back to a checkpoint of a file.
    Checkpoint {
        /// The intent, and the operation's number for the servers.
        number: u64,
        /// The file.
        file: FileId,
        /// Where its cells are.
        layout: Layout,
        /// What to do.
        task: CheckpointTask,
        /// The checkpoint's name.
        name: String,
    },
    /// Make, drop or roll back to a checkpoint of a tree.
    Tree {
        /// The intent, and the operation's number for the servers.
        number: u64,
        /// The directory.
        directory: FileId,
        /// What to do.
        task: CheckpointTask,
        /// The checkpoint's name.
        name: String,
        /// The files that have cells.
        files: Vec<TreeFile>,
    },
}

/// A file with cells in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    /// The file.
    pub file: FileId,
    /// Where its cells are.
    pub layout: Layout,
}

/// What the servers do about a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointTask {
    /// Make one, under the intent's number.
    Make,
    /// Roll the file back to the checkpoint of this number.
    RollBack(u64),
    /// Drop the checkpoint of this number.
    Drop(u64),
}

impl Intent {
    /// Its number.
    pub fn number(&self) -> u64 {
        match self {
            Intent::Delete { number, .. }
            | Intent::Truncate { number, .. }
            | Intent::Checkpoint { number, .. }
            | Intent::Tree { number, .. } => *number,
        }
    }

    /// The file; for a tree its directory.
    pub fn file(&self) -> FileId {
        match self {
            Intent::Delete { file, .. }
            | Intent::Truncate { file, .. }
            | Intent::Checkpoint { file, .. } => *file,
            Intent::Tree { directory, .. } => *directory,
        }
    }

    /// The servers that must carry it out, each once.
    pub fn servers(&self) -> Vec<ServerId> {
        let mut servers: Vec<ServerId> = match self {
            Intent::Delete { servers, .. } => servers.clone(),
            Intent::Truncate { layout, .. } | Intent::Checkpoint { layout, .. } => {
                layout.servers_in_use().to_vec()
            }
            Intent::Tree { files, .. } => {
                let all = files.iter().flat_map(|of| of.layout.servers_in_use());
                all.copied().collect()
            }
        };
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// Every file that it concerns: intents about the same file run in order.
    pub fn files(&self) -> Vec<u64> {
        let mut files = vec![self.file().0];
        if let Intent::Tree { files: more, .. } = self {
            files.extend(more.iter().map(|of| of.file.0));
        }
        files
    }

    pub(crate) fn from_record(
        reader: &dyn Reader,
        number: u64,
        record: &IntentRecord,
    ) -> Result<Intent, MetaError> {
        let corrupt = |reason: String| MetaError::Corrupt {
            what: "intent",
            id: number,
            reason,
        };
        let file = FileId(record.file);
        match (&record.delete, &record.truncate, &record.checkpoint) {
            (Some(delete), None, None) => Ok(Intent::Delete {
                number,
                file,
                servers: delete.servers.iter().copied().map(ServerId).collect(),
            }),
            (None, Some(truncate), None) => {
                let layout = truncate.layout.as_ref();
                let layout = layout.ok_or_else(|| corrupt("it has no layout".into()))?;
                Ok(Intent::Truncate {
                    number,
                    file,
                    layout: layout.checked().map_err(corrupt)?,
                    size: truncate.size,
                })
            }
            (None, None, Some(checkpoint)) => {
                let task = match checkpoint.task {
                    TASK_MAKE => CheckpointTask::Make,
                    TASK_ROLL_BACK => CheckpointTask::RollBack(checkpoint.checkpoint),
                    TASK_DROP => CheckpointTask::Drop(checkpoint.checkpoint),
                    other => return Err(corrupt(format!("its task {other} is not known"))),
                };
                if checkpoint.image != 0 {
                    let made = match task {
                        CheckpointTask::Make => number,
                        CheckpointTask::RollBack(of) | CheckpointTask::Drop(of) => of,
                    };
                    return Ok(Intent::Tree {
                        number,
                        directory: file,
                        task,
                        name: checkpoint.name.clone(),
                        files: tree_files(reader, made)?,
                    });
                }
                let layout = checkpoint.layout.as_ref();
                let layout = layout.ok_or_else(|| corrupt("it has no layout".into()))?;
                Ok(Intent::Checkpoint {
                    number,
                    file,
                    layout: layout.checked().map_err(corrupt)?,
                    task,
                    name: checkpoint.name.clone(),
                })
            }
            _ => Err(corrupt("it has not exactly one known task".into())),
        }
    }
}

/// Whether an intent concerns the tree below a directory.
pub(crate) fn is_tree(record: &IntentRecord) -> bool {
    record
        .checkpoint
        .as_ref()
        .is_some_and(|task| task.image != 0)
}

/// The files with cells in a checkpoint of a tree, each with its layout at that time.
pub(crate) fn tree_files(reader: &dyn Reader, checkpoint: u64) -> Result<Vec<TreeFile>, MetaError> {
    let with_layout = |(file, image): (u64, u64)| {
        let layout = layout_of(image, &keys::named_inode(reader, image)?)?;
        let file = FileId(file);
        Ok(TreeFile { file, layout })
    };
    let files = checkpoint_files(reader, checkpoint)?;
    files.into_iter().map(with_layout).collect()
}
