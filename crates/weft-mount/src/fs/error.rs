//! Errors of the file system, and the one place where they become errnos.

use rustix::io::Errno;
use thiserror::Error;
use weft_client::Error as VolumeError;
use weft_proto::{Code, Retry};

use crate::data::DataError;

/// Why an operation failed.
#[derive(Debug, Error)]
pub enum FsError {
    /// The volume refused, or is unreachable.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Data could not be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The file system refused the request itself.
    #[error("{what}: {errno}")]
    Refused {
        /// The reason, in words.
        what: &'static str,
        /// The reason as an errno.
        errno: Errno,
    },
}

impl FsError {
    /// A refusal by the file system itself.
    pub(crate) fn refused(what: &'static str, errno: Errno) -> FsError {
        FsError::Refused { what, errno }
    }

    /// The errno for the program. Errors that only Weft has become input/output errors.
    pub fn errno(&self) -> i32 {
        match self {
            FsError::Volume(error) => program_errno(error.code(), error.errno()),
            FsError::Data(error) => program_errno(error.code(), error.errno()),
            FsError::Refused { errno, .. } => errno.raw_os_error(),
        }
    }

    /// Whether the volume no longer has the file or directory.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, FsError::Volume(error) if error.code() == Code::Stale)
    }

    /// Whether bytes are lost or in doubt.
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            FsError::Volume(error) => error.code() == Code::Lost,
            FsError::Data(error) => error.code() == Code::Lost,
            FsError::Refused { .. } => false,
        }
    }

    /// Whether it is a failure, which an administrator should see, and not a refusal.
    pub(crate) fn is_failure(&self) -> bool {
        self.errno() == Errno::IO.raw_os_error()
    }
}

/// The errno that programs get for a code whose closest errno is `errno`.
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
        | Code::Cautious
        | Code::Cancelled => Errno::IO.raw_os_error(),
    }
}

/// Whether the same call may succeed in a moment: the service did nothing, because it is
/// unreachable or not ready.
pub(crate) fn is_transient(error: &VolumeError) -> bool {
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
    fn only_calls_that_did_nothing_are_transient() {
        assert!(is_transient(&refused(Code::Busy)));
        assert!(is_transient(&refused(Code::Unavailable)));
        assert!(!is_transient(&refused(Code::Cancelled)));
        assert!(!is_transient(&refused(Code::NotFound)));
    }

    /// One error of each kind, with a value that its message must name.
    fn all() -> Vec<(FsError, &'static str)> {
        let lost = DataError::Lost {
            file: "/a/f (file 7)".to_owned(),
            start: 1,
            end: 2,
            tried: std::time::Duration::from_secs(3),
            source: std::sync::Arc::new(refused(Code::Unavailable)),
        };
        let errors = vec![
            (FsError::from(refused(Code::NotFound)), "test"),
            (FsError::from(lost), "/a/f (file 7)"),
            (
                FsError::refused("the ranges overlap", Errno::INVAL),
                "the ranges overlap",
            ),
        ];
        for (error, _) in &errors {
            // A new variant is missing above.
            match error {
                FsError::Volume(_) | FsError::Data(_) | FsError::Refused { .. } => {}
            }
        }
        errors
    }

    #[test]
    fn messages_name_their_values_in_one_line_without_a_full_stop() {
        for (error, named) in all() {
            let text = error.to_string();
            assert!(text.contains(named), "{text:?} does not name {named}");
            assert!(text.chars().next().unwrap().is_lowercase(), "{text}");
            assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
        }
    }
}
