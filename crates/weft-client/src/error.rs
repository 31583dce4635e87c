//! The errors of a client.

use thiserror::Error;
use weft_layout::array::ArrayError;
use weft_layout::{MapError, PatternError, ViewError};
use weft_net::{CallError, ConnectError};
use weft_proto::{Code, ConvertError, Retry, text};

/// What can go wrong in a client, closed: every interface maps each of them to an error of its
/// kind.
#[derive(Debug, Error)]
pub enum Error {
    /// A server or the metadata service refused or failed.
    #[error("{what}: {message}")]
    Refused {
        /// What was attempted, on what.
        what: String,
        /// The kind of failure.
        code: Code,
        /// The closest errno of Linux.
        errno: i32,
        /// What may be done about it.
        retry: Retry,
        /// The service's words.
        message: String,
    },
    /// A server cannot be reached; nothing was done by it.
    #[error(
        "{what}: {source}; check with `weft status` and start it with `weft up` or `weft serve`"
    )]
    Unreachable {
        /// What was attempted, on what.
        what: String,
        /// How it failed.
        source: ConnectError,
    },
    /// The connection was lost before the answer: the change may have happened or not.
    #[error("{what}: {source}; it may or may not have taken effect; check before retrying")]
    MayHaveHappened {
        /// What was attempted, on what.
        what: String,
        /// How it was lost.
        source: CallError,
    },
    /// A peer broke the protocol.
    #[error("{what}: {reason}")]
    Protocol {
        /// What was attempted, on what.
        what: String,
        /// What was wrong.
        reason: String,
    },
    /// The view is not legal on the file's layout.
    #[error("this view does not fit the file: {0}")]
    View(#[from] ViewError),
    /// The request reaches past the largest offset.
    #[error("this request cannot be mapped: {0}")]
    Map(#[from] MapError),
    /// The request's pattern is not legal.
    #[error("this request is refused: {0}")]
    Pattern(#[from] PatternError),
    /// What a file or a caller says is no array, or no part of one.
    #[error("this array is refused: {0}")]
    Array(#[from] ArrayError),
    /// The caller's buffer is too small for the request.
    #[error("the buffer has {given} bytes, the request needs {needed}")]
    Buffer {
        /// Bytes of the buffer.
        given: usize,
        /// Bytes that it must have.
        needed: u64,
    },
    /// The file is of a kind without data.
    #[error("{path} is a {kind}, which has no cells")]
    NoData {
        /// The file.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// The file's bytes lie with its metadata: it has no cells to look at yet.
    #[error(
        "{path}: its data is stored inline; move it to its cells first (File::spill), or attach it without inline"
    )]
    Inline {
        /// The file.
        path: String,
    },
    /// The folder, configuration or key of a volume cannot be used.
    #[error("{0}")]
    Configuration(String),
}

impl Error {
    /// The address of the service that did not answer, if that is what went wrong.
    pub fn peer(&self) -> Option<&str> {
        match self {
            Error::Unreachable { source, .. } => Some(source.address()),
            Error::MayHaveHappened {
                source: CallError::Lost { address, .. },
                ..
            } => Some(address),
            _ => None,
        }
    }

    /// The code to act upon.
    pub fn code(&self) -> Code {
        match self {
            Error::Refused { code, .. } => *code,
            Error::Unreachable { source, .. } => CallError::Connect(source.clone()).code(),
            Error::MayHaveHappened { .. } => Code::Unavailable,
            Error::Protocol { .. } => Code::Internal,
            Error::Map(MapError::PastLimit { .. })
            | Error::Pattern(PatternError::OutOfRange { .. }) => Code::TooLarge,
            Error::NoData {
                kind: "directory", ..
            } => Code::IsDirectory,
            Error::Pattern(_)
            | Error::Buffer { .. }
            | Error::Array(_)
            | Error::View(_)
            | Error::NoData { .. }
            | Error::Inline { .. }
            | Error::Configuration(_)
            | Error::Map(_) => Code::Invalid,
        }
    }

    /// The closest errno of Linux.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Refused { errno, .. } => *errno,
            other => other.code().errno(),
        }
    }

    /// A call that this process refuses before it sends anything.
    pub(crate) fn invalid(what: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Refused {
            what: what.into(),
            code: Code::Invalid,
            errno: Code::Invalid.errno(),
            retry: Retry::Never,
            message: message.into(),
        }
    }

    /// Of a write that a quota refuses, also how to find out which quota. `path`: what messages
    /// call the file.
    pub(crate) fn of_write(what: impl Into<String>, path: &str, error: CallError) -> Error {
        let mut error = Error::of_call(what, error);
        if let Error::Refused {
            code: Code::QuotaExceeded,
            message,
            ..
        } = &mut error
        {
            let path = match path {
                // A file whose path is not known is called by its place.
                path if path.contains(' ') && !path.starts_with('/') => "FILE".to_owned(),
                path if path
                    .contains(|c: char| !(c.is_alphanumeric() || "/._-+,@:=".contains(c))) =>
                {
                    format!("'{}'", path.replace('\'', r"'\''"))
                }
                path => path.to_owned(),
            };
            *message = format!("{message}; `weft quota show {path}` shows which");
        }
        error
    }

    /// Changes of something that were acknowledged are gone, as was said before.
    pub(crate) fn lost(of: &str, message: String) -> Error {
        Error::Refused {
            what: format!("acknowledged changes of {of} are lost"),
            code: Code::Lost,
            errno: Code::Lost.errno(),
            retry: Retry::Never,
            message,
        }
    }

    /// The length of something is in doubt.
    pub(crate) fn end_in_doubt(what: String) -> Error {
        Error::Refused {
            what,
            code: Code::Lost,
            errno: Code::Lost.errno(),
            retry: Retry::Never,
            message: "it is in doubt how much one of its servers had of it: `weft fsck` tells more, and `weft fsck --accept FILE` takes what \
                      there is"
                .to_owned(),
        }
    }

    pub(crate) fn of_call(what: impl Into<String>, error: CallError) -> Error {
        let what = what.into();
        match error {
            CallError::Connect(ConnectError::Refused { failure, .. })
            | CallError::Failed(failure) => Error::Refused {
                // Whatever the peer sends, it is one line that commands no terminal.
                message: said_once(&what, text::one_line(&failure.message)),
                what,
                code: Code::try_from(failure.code).unwrap_or(Code::Internal),
                errno: failure.errno,
                retry: Retry::try_from(failure.retry).unwrap_or(Retry::Never),
            },
            CallError::Connect(source) => Error::Unreachable { what, source },
            source @ CallError::Lost { .. } => Error::MayHaveHappened { what, source },
            CallError::Protocol { address, reason } => Error::Protocol {
                what,
                reason: format!("{address} broke the protocol: {reason}"),
            },
        }
    }

    pub(crate) fn of_convert(what: impl Into<String>, error: &ConvertError) -> Error {
        Error::Protocol {
            what: what.into(),
            reason: error.to_string(),
        }
    }
}

/// A message without the path that it begins with, where what was attempted ends with that.
fn said_once(what: &str, message: String) -> String {
    let path = what.rsplit(' ').next().unwrap_or(what);
    let rest = message
        .strip_prefix(path)
        .and_then(|rest| rest.strip_prefix(": "));
    match rest {
        Some(rest) if path.starts_with('/') => rest.to_owned(),
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_printed_once_with_control_characters_escaped() {
        let failure = |message: &str| {
            let failure = weft_proto::Failure::new(Code::NotFound, message);
            Error::of_call("attach /a", CallError::Failed(failure)).to_string()
        };
        assert_eq!(failure("/a: no such file"), "attach /a: no such file");
        assert_eq!(failure("/ab: no such file"), "attach /a: /ab: no such file");
        assert_eq!(failure("\u{1b}[2J\nx"), "attach /a: \\u{1b}[2J\\nx");
    }

    /// One of each variant.
    fn all() -> Vec<Error> {
        let unreachable = ConnectError::Unreachable {
            address: "h:1".to_owned(),
            reason: "refused".to_owned(),
        };
        let lost = CallError::Connect(unreachable.clone());
        let (what, path) = ("read /a".to_owned(), "/a".to_owned());
        let (needed, given) = (32, 31);
        vec![
            Error::invalid(what.clone(), "no"),
            Error::Unreachable {
                what: what.clone(),
                source: unreachable,
            },
            Error::MayHaveHappened {
                what: what.clone(),
                source: lost,
            },
            Error::Protocol {
                what,
                reason: "too long".to_owned(),
            },
            Error::View(ViewError::Zero { parameter: "vbs" }),
            Error::Map(MapError::PastLimit {
                offset: 21,
                length: 22,
            }),
            Error::Pattern(PatternError::Overlap { at: 23 }),
            Error::Array(ArrayError::Dimensions {
                array: 24,
                slabs: 25,
            }),
            Error::Buffer { given, needed },
            Error::NoData {
                path: path.clone(),
                kind: "directory",
            },
            Error::Inline { path },
            Error::Configuration("no key in /v".to_owned()),
        ]
    }

    #[test]
    fn messages_are_one_line_without_a_full_stop_and_name_their_values() {
        for error in all() {
            let message = error.to_string();
            assert!(!message.starts_with(char::is_uppercase), "{message}");
            assert!(
                !message.ends_with('.') && !message.contains('\n'),
                "{message}"
            );
            let values = match &error {
                Error::Refused { what, message, .. } => vec![what.clone(), message.clone()],
                Error::Unreachable { what, source } => vec![what.clone(), source.to_string()],
                Error::MayHaveHappened { what, source } => vec![what.clone(), source.to_string()],
                Error::Protocol { what, reason } => vec![what.clone(), reason.clone()],
                Error::View(source) => vec![source.to_string()],
                Error::Map(source) => vec![source.to_string()],
                Error::Pattern(source) => vec![source.to_string()],
                Error::Array(source) => vec![source.to_string()],
                Error::Buffer { given, needed } => vec![given.to_string(), needed.to_string()],
                Error::NoData { path, kind } => vec![path.clone(), (*kind).to_owned()],
                Error::Inline { path } => vec![path.clone()],
                Error::Configuration(text) => vec![text.clone()],
            };
            for value in values {
                assert!(message.contains(&value), "{message}: {value}");
            }
        }
    }

    #[test]
    fn a_quota_refusal_names_the_command_that_shows_the_quota() {
        let of = |path| {
            let failure = weft_proto::Failure::new(Code::QuotaExceeded, "no more");
            Error::of_write("write", path, CallError::Failed(failure)).to_string()
        };
        let hint = |path| format!("write: no more; `weft quota show {path}` shows which");
        assert_eq!(of("/a/f.dat"), hint("/a/f.dat"));
        assert_eq!(of("/a/it's"), hint(r"'/a/it'\''s'"));
        assert_eq!(of("file 178"), hint("FILE"));
        let failure = weft_proto::Failure::new(Code::NoSpace, "full");
        let other = Error::of_write("write", "/a", CallError::Failed(failure));
        assert_eq!(other.to_string(), "write: full");
    }
}
