use thiserror::Error;

/// Why a crew cannot go on, closed.
#[derive(Debug, Error)]
pub enum CrewError {
    /// A worker cannot be started.
    #[error("cannot start a worker, {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// A worker cannot listen to its leader.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// A worker says that it cannot go on.
    #[error("worker {worker}: {message}")]
    Failed {
        /// Which one, from 0.
        worker: usize,
        /// Its words.
        message: String,
    },
    /// A worker ended without a word.
    #[error("worker {worker} (process {process}) died: {status}")]
    Died {
        /// Which one, from 0.
        worker: usize,
        /// Its process.
        process: u32,
        /// How.
        status: String,
    },
    /// A worker said something that is no line of the protocol.
    #[error("worker {worker} said {line:?}")]
    Nonsense {
        /// Which one, from 0.
        worker: usize,
        /// What.
        line: String,
    },
    /// Workers and orders are not as many.
    #[error("{orders} jobs given for {workers} workers")]
    Orders {
        /// Orders given.
        orders: usize,
        /// Workers there are.
        workers: usize,
    },
    /// No worker is left to hear of.
    #[error("no worker is left")]
    Empty,
    /// The leader ended, or never was.
    #[error("the leader is gone")]
    LeaderGone,
    /// What the leader said is no job of this worker.
    #[error("internal command, not meant to be run directly: {reason}")]
    NoJob {
        /// What was wrong with it.
        reason: String,
    },
    /// What one side has to say cannot be put into words.
    #[error("cannot encode a message: {0}")]
    Encode(serde_json::Error),
    /// Signals cannot be listened to.
    #[error("cannot listen to signals: {0}")]
    Signals(std::io::Error),
}
