use std::time::Duration;

use thiserror::Error;
use weft_proto::{Code, Failure, FrameError, Retry};

use crate::protection::Tampered;

/// Why a connection could not be opened.
#[derive(Clone, Debug, Error)]
pub enum ConnectError {
    /// Nobody answers there.
    #[error("cannot reach {address}: {reason}")]
    Unreachable {
        /// `host:port`.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The peer took too long.
    #[error("{address} did not answer within {waited:?}")]
    Timeout {
        /// `host:port`.
        address: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The peer answered, but refused.
    #[error("{address} refused the connection: {}", failure.message)]
    Refused {
        /// `host:port`.
        address: String,
        /// Its reason.
        failure: Failure,
    },
    /// The peer does not hold this volume's key.
    #[error("{address} does not hold the key of this volume; check address and key")]
    Impostor {
        /// `host:port`.
        address: String,
    },
    /// The peer does not speak Weft's protocol.
    #[error("{address} does not speak Weft's protocol: {reason}")]
    Protocol {
        /// `host:port`.
        address: String,
        /// What was wrong.
        reason: String,
    },
    /// Another server lives there than the map says.
    #[error("{address} is server {found:?}, not server {expected}; the server map is out of date")]
    WrongServer {
        /// `host:port`.
        address: String,
        /// Who answered.
        found: Option<u32>,
        /// Who was meant.
        expected: u32,
    },
}

impl ConnectError {
    /// Where the peer was looked for.
    pub fn address(&self) -> &str {
        match self {
            ConnectError::Unreachable { address, .. }
            | ConnectError::Timeout { address, .. }
            | ConnectError::Refused { address, .. }
            | ConnectError::Impostor { address }
            | ConnectError::Protocol { address, .. }
            | ConnectError::WrongServer { address, .. } => address,
        }
    }
}

/// Why a call failed.
#[derive(Clone, Debug, Error)]
pub enum CallError {
    /// No connection: the call was not sent.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The peer answered with an error.
    #[error("{}", .0.message)]
    Failed(Failure),
    /// The connection was lost while the call was under way: it may have happened.
    #[error("the connection to {address} was lost during the call: {reason}")]
    Lost {
        /// `host:port`.
        address: String,
        /// How it was lost.
        reason: String,
    },
    /// The peer's answer makes no sense.
    #[error("{address} broke the protocol: {reason}")]
    Protocol {
        /// `host:port`.
        address: String,
        /// What was wrong.
        reason: String,
    },
}

impl CallError {
    /// What may be done about it.
    pub fn retry(&self) -> Retry {
        match self {
            CallError::Failed(failure)
            | CallError::Connect(ConnectError::Refused { failure, .. }) => failure.retry(),
            CallError::Connect(ConnectError::WrongServer { .. }) => Retry::Refresh,
            CallError::Connect(ConnectError::Unreachable { .. } | ConnectError::Timeout { .. }) => {
                Retry::Later
            }
            CallError::Connect(ConnectError::Impostor { .. } | ConnectError::Protocol { .. }) => {
                Retry::Never
            }
            CallError::Lost { .. } | CallError::Protocol { .. } => Retry::Unknown,
        }
    }

    /// The code to act upon.
    pub fn code(&self) -> Code {
        match self {
            CallError::Failed(failure) => Code::try_from(failure.code).unwrap_or(Code::Internal),
            CallError::Connect(ConnectError::Refused { failure, .. }) => {
                Code::try_from(failure.code).unwrap_or(Code::Internal)
            }
            CallError::Connect(ConnectError::Impostor { .. }) => Code::Unauthenticated,
            CallError::Connect(ConnectError::WrongServer { .. }) => Code::StaleMap,
            CallError::Connect(_) | CallError::Lost { .. } => Code::Unavailable,
            CallError::Protocol { .. } => Code::Internal,
        }
    }
}

/// Why no further frame can be read from a stream.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    #[error("the peer closed the connection")]
    Closed,
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Tampered(#[from] Tampered),
    #[error("silent for too long")]
    Silent,
    /// There is no room for it, and none was granted.
    #[error("{0}")]
    Refused(String),
}
