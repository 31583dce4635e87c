//! Maps the errors of each family to failures on the wire. The matches are exhaustive, so that a
//! new variant must choose its code.

use std::time::{Duration, SystemTime};

use weft_layout::MapError;
use weft_meta::MetaError;
use weft_net::Served;
use weft_proto::{Code, ConvertError, Failure, FrameError};
use weft_store::StoreError;

pub(crate) fn of_store(error: &StoreError) -> Failure {
    let code = match error {
        StoreError::BadChecksum { .. }
        | StoreError::Lost { .. }
        | StoreError::Coded { .. }
        | StoreError::Unproven { .. }
        | StoreError::BadChunk { .. }
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
        // The last two: parts of the call may have happened, so it is not simply asked of another.
        StoreError::Locked { .. }
        | StoreError::Closed
        | StoreError::NotPrimary
        | StoreError::Unacknowledged { .. } => Code::Unavailable,
    };
    Failure::new(code, error.to_string())
}

/// `peer` came back at `began` (nanoseconds since the epoch) without changes that it acknowledged.
pub(crate) fn lost(peer: &str, began: i64) -> Failure {
    let what = format!(
        "{peer} acknowledged changes that are gone: it came back at {} without them, after a loss of power or with an older copy of its folder; \
         write them again",
        time(began)
    );
    Failure::new(Code::Lost, what)
}

/// Formats a time in nanoseconds since the epoch.
pub(crate) fn time(nanos: i64) -> String {
    let since = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since).to_string()
}

pub(crate) fn of_meta(error: &MetaError) -> Failure {
    match error {
        MetaError::Lost { began } => lost("the metadata service", *began),
        error => Failure::new(error.code(), error.to_string()),
    }
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

pub(crate) fn corrupt(what: impl Into<String>) -> Failure {
    Failure::new(Code::Corrupt, what)
}

pub(crate) fn invalid(what: impl Into<String>) -> Failure {
    Failure::new(Code::Invalid, what)
}

/// Refuses a call that `role` does not serve.
pub(crate) fn unsupported(call: Served, role: &str) {
    let what = format!(
        "{} was sent to {role}, which does not serve it; check the address",
        call.kind.name()
    );
    call.reply.fail(&Failure::new(Code::Unsupported, what));
}
