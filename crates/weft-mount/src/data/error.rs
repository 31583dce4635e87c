//! What can go wrong with data.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use weft_proto::Code;

use crate::outage::GaveUp;

/// Why data could not be read or written. Cheap to clone: one failed flush is told to every open.
#[derive(Clone, Debug, Error)]
pub enum DataError {
    /// A call failed.
    #[error("{0}")]
    Call(Arc<weft_client::Error>),
    /// Bytes that were acknowledged could not be written and were dropped.
    #[error(
        "bytes written between {start} and {end} of {file} are lost: they could not be sent for {tried:.1?}: {source}"
    )]
    Lost {
        /// The file's path and id, for people.
        file: String,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// How long it was tried.
        tried: Duration,
        /// The last failure.
        source: Arc<weft_client::Error>,
    },
    /// The bytes would reach past the largest offset.
    #[error("{length} bytes from {offset} on reach past the largest offset of a file")]
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
    /// The code to act upon.
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

impl From<GaveUp> for DataError {
    fn from(gave_up: GaveUp) -> DataError {
        DataError::Call(Arc::new(gave_up.error))
    }
}
