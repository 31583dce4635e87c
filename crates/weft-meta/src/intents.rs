//! Work owed to the I/O servers: written with the change that causes it, taken away when every
//! server has done it. Whoever carries it through may die and begin again: servers skip the
//! numbers that they have seen.

use std::collections::HashSet;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

use weft_kv::Reader;
use weft_layout::{FileId, Layout, ServerId};
use weft_proto::meta::{self, StatReply};

use crate::keys::{self, INTENTS};
use crate::ops::{attributes, tree_files};
use crate::record::{IntentRecord, LayoutRecord, TASK_DROP, TASK_MAKE, TASK_ROLL_BACK};
use crate::{MetaError, Namespace};

/// Work owed to I/O servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Remove everything of a file.
    Delete {
        /// The intent, and the operation's number for the servers.
        number: u64,
        /// The file.
        file: FileId,
        /// The servers that may hold something of it.
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
    /// Do something about a checkpoint.
    Checkpoint {
        /// The intent, and the operation's number for the servers.
        number: u64,
        /// The file.
        file: FileId,
        /// Where its cells are.
        layout: Layout,
        /// What.
        task: CheckpointTask,
        /// The checkpoint's name.
        name: String,
    },
    /// Do something about a checkpoint of a tree.
    Tree {
        /// The intent, and the operation's number for the servers.
        number: u64,
        /// The directory.
        directory: FileId,
        /// What.
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

/// What the servers are to do about a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointTask {
    /// Make one, under the intent's number.
    Make,
    /// Make the file what it is in the checkpoint of this number.
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

    /// The file; of a tree its directory.
    pub fn file(&self) -> FileId {
        match self {
            Intent::Delete { file, .. }
            | Intent::Truncate { file, .. }
            | Intent::Checkpoint { file, .. } => *file,
            Intent::Tree { directory, .. } => *directory,
        }
    }

    /// The servers that it is owed by, each once.
    pub fn servers(&self) -> Vec<ServerId> {
        let mut servers: Vec<ServerId> = match self {
            Intent::Delete { servers, .. } => servers.clone(),
            Intent::Truncate { layout, .. } | Intent::Checkpoint { layout, .. } => {
                used(layout).to_vec()
            }
            Intent::Tree { files, .. } => {
                let all = files.iter().flat_map(|of| used(&of.layout));
                all.copied().collect()
            }
        };
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// Every file that it is about: no other intent about one of them may overtake it.
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
                    layout: checked(layout).map_err(corrupt)?,
                    size: truncate.size,
                })
            }
            (None, None, Some(owed)) => {
                let task = match owed.task {
                    TASK_MAKE => CheckpointTask::Make,
                    TASK_ROLL_BACK => CheckpointTask::RollBack(owed.checkpoint),
                    TASK_DROP => CheckpointTask::Drop(owed.checkpoint),
                    other => return Err(corrupt(format!("its task {other} is not known"))),
                };
                if owed.image != 0 {
                    let made = match task {
                        CheckpointTask::Make => number,
                        CheckpointTask::RollBack(of) | CheckpointTask::Drop(of) => of,
                    };
                    return Ok(Intent::Tree {
                        number,
                        directory: file,
                        task,
                        name: owed.name.clone(),
                        files: tree_files(reader, made)?,
                    });
                }
                let layout = owed.layout.as_ref();
                let layout = layout.ok_or_else(|| corrupt("it has no layout".into()))?;
                Ok(Intent::Checkpoint {
                    number,
                    file,
                    layout: checked(layout).map_err(corrupt)?,
                    task,
                    name: owed.name.clone(),
                })
            }
            _ => Err(corrupt("it is not one of the works that are known".into())),
        }
    }
}

/// The servers that have cells.
fn used(layout: &Layout) -> &[ServerId] {
    let servers = layout.servers();
    &servers[..servers.len().min(layout.cells() as usize)]
}

pub(crate) fn checked(layout: &LayoutRecord) -> Result<Layout, String> {
    Layout::try_from(&meta::Layout::from(layout)).map_err(|error| error.to_string())
}

impl Namespace {
    /// The oldest intents that may be carried through now, at most `limit`: of each file only the
    /// oldest one, so that several of one file are carried through in order. One about a tree is
    /// one about each file in it that has cells. For whoever carries everything in one go; a service
    /// that must not wait for one server because of another reads [`Namespace::intents_from`].
    ///
    /// Cost: a scan from the oldest that was left at the last call; two reads for each file of a tree.
    pub fn pending_intents(&self, limit: usize) -> Result<Vec<Intent>, MetaError> {
        let from = self.oldest_intent.load(Ordering::Acquire);
        let mut files = HashSet::new();
        let mut found = Vec::new();
        let mut damaged = None;
        let mut oldest = None;
        let counters = self.read(|reader| {
            let mut visit = |key: &[u8], value: &[u8]| {
                let number = keys::number(key).unwrap_or_default();
                oldest.get_or_insert(number);
                if found.len() == limit {
                    return ControlFlow::Break(());
                }
                let record = keys::decode::<IntentRecord>("intent", number, value);
                match record.and_then(|record| Intent::from_record(reader, number, &record)) {
                    Ok(intent) => {
                        let mine = intent.files();
                        let first = mine.iter().all(|file| !files.contains(file));
                        files.extend(mine);
                        if first {
                            found.push(intent);
                        }
                    }
                    Err(error) => {
                        damaged = Some(error);
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            };
            let from = from.to_be_bytes();
            reader.scan(
                INTENTS,
                Bound::Included(&from),
                Bound::Unbounded,
                &mut visit,
            )?;
            keys::counters(reader)
        })?;
        let oldest = oldest.unwrap_or(counters.next_intent);
        self.oldest_intent.fetch_max(oldest, Ordering::AcqRel);
        match damaged {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }

    /// A delete was carried through on every server. Doing it twice changes nothing.
    ///
    /// # Durability
    /// Needs no sync: a delete that comes back after power loss is done again.
    pub fn intent_done(&self, number: u64) -> Result<(), MetaError> {
        self.edit(|edit| {
            let Some(record) = keys::intent(edit.reader(), number)? else {
                return Ok(());
            };
            if record.delete.is_none() {
                return Err(MetaError::WrongIntent {
                    number,
                    expected: "delete",
                });
            }
            edit.settle(number)
        })
    }

    /// A truncate was carried through on every server: size and times change now. Answers the
    /// attributes, or nothing where the file was deleted meanwhile or it was told before.
    ///
    /// # Durability
    /// Needs no sync for the same reason as [`Namespace::intent_done`].
    pub fn truncate_done(&self, number: u64, now: i64) -> Result<Option<StatReply>, MetaError> {
        self.edit(|edit| {
            let Some(record) = keys::intent(edit.reader(), number)? else {
                return Ok(None);
            };
            let truncate = record.truncate.ok_or(MetaError::WrongIntent {
                number,
                expected: "truncate",
            })?;
            let sized = edit.sized(number, record.file, truncate.size, now)?;
            Ok(sized.map(|node| StatReply {
                attributes: attributes(&node),
            }))
        })
    }
}
