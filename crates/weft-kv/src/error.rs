use thiserror::Error;

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
        "the journal {path} is damaged at byte {at}: commits {first} to {last}, which were on stable storage, cannot be read. \
         Nothing was changed. Restore the folder from a copy; or let `weft fsck --offline DIR --repair` go on without them"
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
    /// The engine failed while reading or writing.
    #[error("the key-value engine failed to {doing}: {reason}")]
    Engine {
        /// The operation that failed.
        doing: &'static str,
        /// What the engine said.
        reason: String,
    },
    /// An earlier sync failed: the engine refuses everything until it is reopened.
    #[error("the key-value engine is closed to writes because an earlier sync failed: {reason}")]
    Poisoned {
        /// What the failed sync said.
        reason: String,
    },
}
