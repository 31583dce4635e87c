//! Failures: an errno for the program, and a message for people.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weft_client::Error;

/// Why a call failed.
#[derive(Debug)]
pub struct Failure {
    errno: i32,
    message: String,
}

impl Failure {
    /// A failure with this errno.
    pub fn new(errno: i32, message: impl Into<String>) -> Failure {
        Failure {
            errno,
            message: message.into(),
        }
    }

    /// The errno.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// What was attempted, on what, what went wrong, and what can be done about it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// An argument that no call can use.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(libc::EINVAL, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(error.errno(), error.to_string())
    }
}

/// Runs the body of a call of another language; a panic, which must not unwind into that language,
/// becomes a failure.
///
/// # Errors
/// Those of `body`, and `EIO` for a panic.
pub fn guarded<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        let message = format!("an error inside Weft: {said}; please report it");
        Err(Failure::new(libc::EIO, message))
    })
}
