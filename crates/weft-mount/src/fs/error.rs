//! What can go wrong in the file system, and the one place where it becomes an errno.

use rustix::io::Errno;
use thiserror::Error;
use weft_client::Error as VolumeError;
use weft_proto::{Code, Retry};

use crate::data::DataError;

/// Why an operation failed.
#[derive(Debug, Error)]
pub enum FsError {
    /// The volume refused, or cannot be reached.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Data could not be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// What the caller asks for cannot be; the errno says why.
    #[error("{what}: {errno}")]
    Wrong {
        /// What was asked for.
        what: &'static str,
        /// Why it cannot be.
        errno: Errno,
    },
}

impl FsError {
    /// What is asked for cannot be.
    pub(crate) fn wrong(what: &'static str, errno: Errno) -> FsError {
        FsError::Wrong { what, errno }
    }

    /// As the kernel and programs know it. What only Weft knows becomes an input/output error.
    pub fn errno(&self) -> i32 {
        match self {
            FsError::Volume(error) => program_errno(error.code(), error.errno()),
            FsError::Data(error) => program_errno(error.code(), error.errno()),
            FsError::Wrong { errno, .. } => errno.raw_os_error(),
        }
    }

    /// Whether the volume does not have the file or directory any more.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, FsError::Volume(error) if error.code() == Code::Stale)
    }

    /// Whether it tells of bytes that are lost, or in doubt.
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            FsError::Volume(error) => error.code() == Code::Lost,
            FsError::Data(error) => error.code() == Code::Lost,
            FsError::Wrong { .. } => false,
        }
    }

    /// Whether somebody should look into it: failures, as opposed to refusals.
    pub(crate) fn is_failure(&self) -> bool {
        self.errno() == Errno::IO.raw_os_error()
    }
}

/// What programs are told of a failure of this kind, whose closest errno is `errno`.
fn program_errno(code: Code, errno: i32) -> i32 {
    match code {
        Code::Invalid
        | Code::Permission
        | Code::NotOwner
        | Code::NotFound
        | Code::Exists
        | Code::NotDirectory
        | Code::IsDirectory
        | Code::NotEmpty
        | Code::Loop
        | Code::NameTooLong
        | Code::TooManyLinks
        | Code::NoAttribute
        | Code::AttributeTooLarge
        | Code::Stale
        | Code::NoSpace
        | Code::TooLarge
        | Code::Unsupported
        | Code::CrossDevice
        | Code::Spilled
        | Code::ReadOnly
        | Code::QuotaExceeded
        | Code::MembersMissing
        | Code::Busy => errno,
        Code::Internal
        | Code::Unauthenticated
        | Code::Version
        | Code::WrongVolume
        | Code::Io
        | Code::Corrupt
        | Code::StaleMap
        | Code::Unavailable
        | Code::Lost
        | Code::RolledBack
        | Code::Cancelled => Errno::IO.raw_os_error(),
    }
}

/// Whether the same call may do better in a moment: nothing was done, because somebody is away or
/// not ready.
pub(crate) fn may_do_better(error: &VolumeError) -> bool {
    match error {
        VolumeError::Unreachable { .. } => true,
        VolumeError::Refused { code, retry, .. } => {
            *retry == Retry::Later && matches!(code, Code::Busy | Code::Unavailable)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: Code) -> VolumeError {
        VolumeError::Refused {
            what: "test".into(),
            code,
            errno: code.errno(),
            retry: code.retry(),
            message: "no".into(),
        }
    }

    #[test]
    fn programs_see_only_errnos_that_a_local_file_system_has() {
        for code in Code::ALL {
            let errno = FsError::from(refused(code)).errno();
            let foreign = [112, 125, 71];
            assert!(!foreign.contains(&errno), "{code:?} becomes {errno}");
        }
        assert_eq!(FsError::from(refused(Code::Unavailable)).errno(), 5);
        assert_eq!(FsError::from(refused(Code::NotFound)).errno(), 2);
        assert_eq!(FsError::from(refused(Code::WrongVolume)).errno(), 5);
    }

    #[test]
    fn only_what_nobody_did_is_tried_again() {
        assert!(may_do_better(&refused(Code::Busy)));
        assert!(may_do_better(&refused(Code::Unavailable)));
        assert!(!may_do_better(&refused(Code::Cancelled)));
        assert!(!may_do_better(&refused(Code::NotFound)));
    }
}
