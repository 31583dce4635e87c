use std::io;
use std::path::Path;

use thiserror::Error;

/// A journal that ends too early, or the folder that lacks one.
fn lost_commits(path: &str, at: u64, first: u64, last: u64) -> String {
    let journal = if at == 0 && Path::new(path).is_dir() {
        format!("a journal of the key-value engine in {path} is gone")
    } else {
        format!("the journal {path} is damaged at byte {at}")
    };
    format!("{journal}: commits {first} to {last}, which were on stable storage, cannot be read")
}

/// What can go wrong in a key-value engine.
#[derive(Debug, Error)]
pub enum KvError {
    /// The caller's closure gave up; nothing was written.
    #[error("the transaction was given up by its caller")]
    Aborted,
    /// The engine could not be opened at this place.
    #[error("cannot open the key-value engine at {path}: {reason}")]
    Open {
        /// Where the engine keeps its files.
        path: String,
        /// What the engine said.
        reason: String,
    },
    /// The journal lacks commits that were on stable storage; nothing was changed.
    #[error(
        "{}. Nothing was changed. Restore the folder from a copy; or let `weft fsck --offline DIR --repair` go on without \
         them (a server's index loses nothing by that where the server's log has them; a namespace may lose names: their \
         files come to lost+found)",
        lost_commits(path, *at, *first, *last)
    )]
    Lost {
        /// The journal.
        path: String,
        /// Where what can be read of it ends.
        at: u64,
        /// The first commit that is missing.
        first: u64,
        /// The last that must be there.
        last: u64,
    },
    /// The engine's files, other than its journals, are not what it wrote.
    #[error(
        "the key-value engine's files in {path} are damaged: {reason}. Nothing was changed. The copy that the \
         engine keeps of its tables (weft.copies) does not help here. Restore the whole folder of the engine from a copy of yours: what \
         its tables held is nowhere else, and no repair makes it anew. Without one, the node must be \
         formatted anew; of a server, `weft fsck` then says which files lost their bytes"
    )]
    Damaged {
        /// The folder of the damaged files.
        path: String,
        /// What is wrong with them.
        reason: String,
    },
    /// The engine failed while reading or writing.
    #[error("the key-value engine failed to {doing}: {reason}")]
    Engine {
        /// The operation that failed.
        doing: &'static str,
        /// What the engine said.
        reason: String,
    },
    /// The file system that holds the engine's files is nearly full; nothing was written. What
    /// makes the engine smaller is not refused.
    #[error(
        "no space for the key-value engine: {available} bytes are left in the file system of {path}, and {needed} must be. Make \
         room there; deleting files of the volume works meanwhile"
    )]
    NoSpace {
        /// The folder of the engine's files.
        path: String,
        /// What is free.
        available: u64,
        /// What must be.
        needed: u64,
    },
    /// The system refused the engine something: nothing is committed until that has passed, and
    /// what was refused has not happened.
    #[error("the key-value engine refuses changes until this has passed: {reason}")]
    Suspended {
        /// What the system refused.
        reason: String,
    },
    /// A sync could not be begun: what was committed is as durable as before, and the next sync may
    /// succeed.
    #[error("the key-value engine could not sync: {reason}")]
    NotSynced {
        /// What the system refused.
        reason: String,
    },
    /// An earlier sync failed: the engine refuses everything until it is reopened.
    #[error("the key-value engine is closed to writes because an earlier sync failed: {reason}")]
    Poisoned {
        /// What the failed sync said.
        reason: String,
    },
}

impl KvError {
    /// What is wrong, without what to do about it: for who has done that.
    pub fn cause(&self) -> String {
        match self {
            Self::Lost {
                path,
                at,
                first,
                last,
            } => lost_commits(path, *at, *first, *last),
            other => other.to_string(),
        }
    }

    /// The operating system does not let the engine be opened.
    pub(crate) fn open(path: &Path, error: &io::Error) -> Self {
        Self::Open {
            path: path.display().to_string(),
            reason: error.to_string(),
        }
    }

    pub(crate) fn damaged(path: &Path, reason: String) -> Self {
        Self::Damaged {
            path: path.display().to_string(),
            reason,
        }
    }

    /// Tables that do not open.
    pub(crate) fn of_tables(path: &Path, error: &lsm_tree::Error) -> Self {
        match error {
            lsm_tree::Error::Io(error) => Self::of_file(path, error),
            other => Self::damaged(path, format!("{other:?}")),
        }
    }

    /// Files that end too early or are not there are damage; what the system refuses is not.
    pub(crate) fn of_file(path: &Path, error: &io::Error) -> Self {
        use io::ErrorKind::{InvalidData, InvalidInput, NotFound, Other, UnexpectedEof};
        match error.kind() {
            // The system's own refusals, too, are of these kinds.
            InvalidInput | Other if error.raw_os_error().is_some() => Self::open(path, error),
            InvalidData | InvalidInput | NotFound | Other | UnexpectedEof => {
                Self::damaged(path, error.to_string())
            }
            _ => Self::open(path, error),
        }
    }
}
