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
