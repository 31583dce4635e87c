//! Why connecting, a call or reading from a stream fails.

use std::time::Duration;

use thiserror::Error;
use weft_proto::{Code, Failure, FrameError, Retry};

/// Why a connection could not be opened.
#[derive(Clone, Debug, Error)]
pub enum ConnectError {
    /// No process answers there.
    #[error("cannot reach {address}: {reason}")]
    Unreachable {
        /// `host:port`.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The peer did not answer in time.
    #[error("{address} did not answer within {waited:?}")]
    Timeout {
        /// `host:port`.
        address: String,
        /// How long the client waited.
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
    /// Another server than the map says listens there.
    #[error(
        "{address} is {}, not server {expected}; the server map is out of date",
        named(*found)
    )]
    WrongServer {
        /// `host:port`.
        address: String,
        /// The server that answers there; absent: no I/O server.
        found: Option<u32>,
        /// The server that the map names.
        expected: u32,
    },
}

fn named(server: Option<u32>) -> String {
    server.map_or("no I/O server".to_owned(), |id| format!("server {id}"))
}

impl ConnectError {
    /// The address of the peer, `host:port`.
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
    /// What the caller may do about it.
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
    /// The peer sent more than it was granted.
    #[error("{0}")]
    Refused(String),
}

/// A frame whose tag does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "frame {frame} after the handshake failed authentication: it was modified, injected, replayed, dropped or reordered on \
     the way from the peer"
)]
pub(crate) struct Tampered {
    /// The frame's number in its direction.
    pub(crate) frame: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each variant. The match makes a new variant fail to compile until it is listed.
    fn connect_errors() -> Vec<ConnectError> {
        let address = || "host:7500".to_owned();
        let all = vec![
            ConnectError::Unreachable {
                address: address(),
                reason: "connection refused".to_owned(),
            },
            ConnectError::Timeout {
                address: address(),
                waited: Duration::from_secs(3),
            },
            ConnectError::Refused {
                address: address(),
                failure: Failure::new(Code::Busy, "the server has no slot left"),
            },
            ConnectError::Impostor { address: address() },
            ConnectError::Protocol {
                address: address(),
                reason: "it grants no calls".to_owned(),
            },
            ConnectError::WrongServer {
                address: address(),
                found: Some(4),
                expected: 3,
            },
        ];
        for error in &all {
            match error {
                ConnectError::Unreachable { .. }
                | ConnectError::Timeout { .. }
                | ConnectError::Refused { .. }
                | ConnectError::Impostor { .. }
                | ConnectError::Protocol { .. }
                | ConnectError::WrongServer { .. } => {}
            }
        }
        all
    }

    fn call_errors() -> Vec<CallError> {
        let all = vec![
            CallError::Connect(connect_errors().remove(0)),
            CallError::Failed(Failure::new(Code::NoSpace, "server 3 is full")),
            CallError::Lost {
                address: "host:7500".to_owned(),
                reason: "no answer for 6s".to_owned(),
            },
            CallError::Protocol {
                address: "host:7500".to_owned(),
                reason: "a second head".to_owned(),
            },
        ];
        for error in &all {
            match error {
                CallError::Connect(_)
                | CallError::Failed(_)
                | CallError::Lost { .. }
                | CallError::Protocol { .. } => {}
            }
        }
        all
    }

    fn read_errors() -> Vec<ReadError> {
        let all = vec![
            ReadError::Closed,
            ReadError::Io(std::io::ErrorKind::UnexpectedEof.into()),
            ReadError::Frame(FrameError::Kind(99)),
            ReadError::Tampered(Tampered { frame: 7 }),
            ReadError::Silent,
            ReadError::Refused("the client sent more payload than it was granted".to_owned()),
        ];
        for error in &all {
            match error {
                ReadError::Closed
                | ReadError::Io(_)
                | ReadError::Frame(_)
                | ReadError::Tampered(_)
                | ReadError::Silent
                | ReadError::Refused(_) => {}
            }
        }
        all
    }

    #[test]
    fn messages_are_one_line_in_lower_case_without_a_full_stop() {
        let texts = connect_errors()
            .into_iter()
            .map(|error| error.to_string())
            .chain(call_errors().into_iter().map(|error| error.to_string()))
            .chain(read_errors().into_iter().map(|error| error.to_string()));
        for text in texts {
            let first = text.chars().next().expect("a message has words");
            assert!(!first.is_uppercase(), "{text}");
            assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn messages_name_the_peer_and_their_values() {
        for error in connect_errors() {
            assert!(error.to_string().contains(error.address()), "{error}");
        }
        let held = [
            "connection refused",
            "3s",
            "no slot left",
            "",
            "it grants no calls",
            "server 4, not server 3",
        ];
        for (error, held) in connect_errors().iter().zip(held) {
            assert!(error.to_string().contains(held), "{error}");
        }
        let held = [
            "host:7500",
            "server 3 is full",
            "no answer for 6s",
            "a second head",
        ];
        for (error, held) in call_errors().iter().zip(held) {
            assert!(error.to_string().contains(held), "{error}");
        }
        let held = [
            "closed",
            "",
            "99",
            "frame 7",
            "silent",
            "than it was granted",
        ];
        for (error, held) in read_errors().iter().zip(held) {
            assert!(error.to_string().contains(held), "{error}");
        }
    }
}
