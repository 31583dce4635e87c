//! Why an engine refused or failed.

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

/// Failures of a key-value engine.
#[derive(Debug, Error)]
pub enum KvError {
    /// The caller's closure returned an error; nothing was written.
    #[error("the caller aborted the transaction")]
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
        "{}; nothing was changed. Restore the folder from a copy, or let `weft fsck --offline DIR --repair` drop these commits \
         (a server's index loses nothing if the server's log has them; a namespace may lose names: their files come to \
         lost+found)",
        lost_commits(path, *at, *first, *last)
    )]
    Lost {
        /// The journal.
        path: String,
        /// Where its readable bytes end.
        at: u64,
        /// The first missing commit.
        first: u64,
        /// The last that must be there.
        last: u64,
    },
    /// The engine's files, other than its journals, do not hold what was written.
    #[error(
        "the key-value engine's files in {path} are damaged: {reason}; nothing was changed. The engine's second copy of its \
         tables (weft.copies) does not help here. Restore the whole folder of the engine from a backup: its tables are stored \
         nowhere else, and no repair can rebuild them. Without a backup the node must be formatted again; for a server, \
         `weft fsck` then lists the files that lost bytes"
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
    /// The file system that holds the engine's files is nearly full; nothing was written. Deletions
    /// are not refused.
    #[error(
        "no space for the key-value engine: {available} bytes are free in the file system of {path}, {needed} are needed; free \
         space there (files of the volume can still be deleted)"
    )]
    NoSpace {
        /// The folder of the engine's files.
        path: String,
        /// Free bytes.
        available: u64,
        /// Bytes that must be free.
        needed: u64,
    },
    /// The system refused the engine something: nothing is committed while that lasts, and the
    /// refused change has no effect.
    #[error("the key-value engine refuses changes until the system recovers: {reason}")]
    Suspended {
        /// What the system refused.
        reason: String,
    },
    /// A sync could not begin: commits are as durable as before, and the next sync may succeed.
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
    /// The cause, without the advice what to do: for a caller that has done it.
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

    /// The operating system refused to open something.
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

    /// Tables cannot be opened.
    pub(crate) fn of_tables(path: &Path, error: &lsm_tree::Error) -> Self {
        match error {
            lsm_tree::Error::Io(error) => Self::of_file(path, error),
            other => Self::damaged(path, format!("{other:?}")),
        }
    }

    /// Truncated and missing files are damage; a refusal of the system is not.
    pub(crate) fn of_file(path: &Path, error: &io::Error) -> Self {
        use io::ErrorKind::{InvalidData, InvalidInput, NotFound, Other, UnexpectedEof};
        match error.kind() {
            // Refusals of the system are of these kinds, too.
            InvalidInput | Other if error.raw_os_error().is_some() => Self::open(path, error),
            InvalidData | InvalidInput | NotFound | Other | UnexpectedEof => {
                Self::damaged(path, error.to_string())
            }
            _ => Self::open(path, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of_each() -> Vec<KvError> {
        let path = || "/engine".to_owned();
        let reason = || "the reason".to_owned();
        vec![
            KvError::Aborted,
            KvError::Open {
                path: path(),
                reason: reason(),
            },
            KvError::Lost {
                path: path(),
                at: 4097,
                first: 12,
                last: 15,
            },
            KvError::Damaged {
                path: path(),
                reason: reason(),
            },
            KvError::Engine {
                doing: "scan",
                reason: reason(),
            },
            KvError::NoSpace {
                path: path(),
                available: 4097,
                needed: 8193,
            },
            KvError::Suspended { reason: reason() },
            KvError::NotSynced { reason: reason() },
            KvError::Poisoned { reason: reason() },
        ]
    }

    /// The place of a variant in [`one_of_each`], and the values that its message must name.
    fn expected(error: &KvError) -> (usize, Vec<String>) {
        match error {
            KvError::Aborted => (0, vec![]),
            KvError::Open { path, reason } => (1, vec![path.clone(), reason.clone()]),
            KvError::Lost {
                path,
                at,
                first,
                last,
            } => (
                2,
                vec![
                    path.clone(),
                    at.to_string(),
                    first.to_string(),
                    last.to_string(),
                ],
            ),
            KvError::Damaged { path, reason } => (3, vec![path.clone(), reason.clone()]),
            KvError::Engine { doing, reason } => (4, vec![(*doing).to_owned(), reason.clone()]),
            KvError::NoSpace {
                path,
                available,
                needed,
            } => (
                5,
                vec![path.clone(), available.to_string(), needed.to_string()],
            ),
            KvError::Suspended { reason } => (6, vec![reason.clone()]),
            KvError::NotSynced { reason } => (7, vec![reason.clone()]),
            KvError::Poisoned { reason } => (8, vec![reason.clone()]),
        }
    }

    #[test]
    fn every_message_is_one_line_and_names_its_values() {
        for (place, error) in one_of_each().into_iter().enumerate() {
            let (expected_place, values) = expected(&error);
            assert_eq!(place, expected_place);
            let text = error.to_string();
            assert!(text.starts_with(char::is_lowercase), "{text}");
            assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
            for value in values {
                assert!(text.contains(&value), "{value}: {text}");
            }
        }
    }
}
