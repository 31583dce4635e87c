//! Each family's errors as failures on the wire: exhaustive, so that a new variant must choose its code.

use weft_layout::MapError;
use weft_meta::MetaError;
use weft_proto::{Code, ConvertError, Failure, FrameError};
use weft_store::StoreError;

pub(crate) fn of_store(error: &StoreError) -> Failure {
    let code = match error {
        StoreError::BadChecksum { .. }
        | StoreError::Lost { .. }
        | StoreError::Memory { .. }
        | StoreError::Corrupt { .. }
        | StoreError::LogDamaged { .. }
        | StoreError::Version { .. } => Code::Corrupt,
        StoreError::NoSpace { .. } | StoreError::IndexFull { .. } => Code::NoSpace,
        StoreError::Stale { .. } => Code::Stale,
        StoreError::NoCheckpoint { .. } => Code::NotFound,
        StoreError::Disk { .. }
        | StoreError::ChunkMismatch { .. }
        | StoreError::BadChunkSize { .. }
        | StoreError::WrongName { .. } => Code::Invalid,
        StoreError::PastLimit { .. } => Code::TooLarge,
        StoreError::Io { .. }
        | StoreError::DiskFailed { .. }
        | StoreError::Index { .. }
        | StoreError::SyncFailed { .. } => Code::Io,
        StoreError::Locked { .. } | StoreError::Closed => Code::Unavailable,
    };
    Failure::new(code, error.to_string())
}

pub(crate) fn of_meta(error: &MetaError) -> Failure {
    Failure::new(error.code(), error.to_string())
}

pub(crate) fn of_convert(error: &ConvertError) -> Failure {
    Failure::new(Code::Invalid, error.to_string())
}

pub(crate) fn of_map(error: &MapError) -> Failure {
    let code = match error {
        MapError::PastLimit { .. } => Code::TooLarge,
        MapError::NoSuchCell { .. } | MapError::NoSuchSlot { .. } => Code::Invalid,
    };
    Failure::new(code, error.to_string())
}

pub(crate) fn of_frame(error: &FrameError) -> Failure {
    Failure::new(Code::Invalid, error.to_string())
}

pub(crate) fn invalid(what: impl Into<String>) -> Failure {
    Failure::new(Code::Invalid, what)
}
