//! Errors of the data cache.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use weft_proto::Code;

use crate::outage::CallFailure;

/// Why data could not be read or written. Cheap to clone: one failed flush is reported to every
/// open.
#[derive(Clone, Debug, Error)]
pub enum DataError {
    /// A call failed.
    #[error("{0}")]
    Call(Arc<weft_client::Error>),
    /// Bytes that were acknowledged could not be written and were dropped.
    #[error(
        "bytes {start}..{end} of {file} are lost: sending them failed for {tried:.1?}: {source}"
    )]
    Lost {
        /// The file's path and id.
        file: String,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// How long sending was tried.
        tried: Duration,
        /// The last failure.
        source: Arc<weft_client::Error>,
    },
    /// The bytes would reach past the largest offset.
    #[error("{length} bytes from {offset} on exceed the largest offset of a file")]
    PastLimit {
        /// First byte.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// The cache was shut down.
    #[error("the volume is being unmounted")]
    ShuttingDown,
}

impl DataError {
    /// The code that callers act on.
    pub fn code(&self) -> Code {
        match self {
            DataError::Call(source) | DataError::Lost { source, .. } => source.code(),
            DataError::PastLimit { .. } => Code::TooLarge,
            DataError::ShuttingDown => Code::Unavailable,
        }
    }

    /// The closest errno of Linux.
    pub fn errno(&self) -> i32 {
        match self {
            DataError::Call(source) | DataError::Lost { source, .. } => source.errno(),
            other => other.code().errno(),
        }
    }
}

impl From<weft_client::Error> for DataError {
    fn from(error: weft_client::Error) -> DataError {
        DataError::Call(Arc::new(error))
    }
}

impl From<CallFailure> for DataError {
    fn from(failure: CallFailure) -> DataError {
        DataError::Call(Arc::new(failure.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One error of each kind, with the values that its message must name.
    fn all() -> Vec<(DataError, Vec<&'static str>)> {
        let refused = || {
            Arc::new(weft_client::Error::Refused {
                what: "write".into(),
                code: Code::NoSpace,
                errno: Code::NoSpace.errno(),
                retry: Code::NoSpace.retry(),
                message: "the disk is full".into(),
            })
        };
        let lost = DataError::Lost {
            file: "/a/f (file 7)".to_owned(),
            start: 10,
            end: 20,
            tried: Duration::from_secs(3),
            source: refused(),
        };
        let past = DataError::PastLimit {
            offset: 30,
            length: 40,
        };
        let errors = vec![
            (DataError::Call(refused()), vec!["the disk is full"]),
            (lost, vec!["/a/f (file 7)", "10..20", "the disk is full"]),
            (past, vec!["30", "40"]),
            (DataError::ShuttingDown, vec!["unmounted"]),
        ];
        for (error, _) in &errors {
            // A new variant is missing above.
            match error {
                DataError::Call(_)
                | DataError::Lost { .. }
                | DataError::PastLimit { .. }
                | DataError::ShuttingDown => {}
            }
        }
        errors
    }

    #[test]
    fn messages_name_their_values_in_one_line_without_a_full_stop() {
        for (error, named) in all() {
            let text = error.to_string();
            for value in named {
                assert!(text.contains(value), "{text:?} does not name {value}");
            }
            assert!(!text.chars().next().unwrap().is_uppercase(), "{text}");
            assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
        }
    }
}
