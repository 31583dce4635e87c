//! Which refusals of the system are transient.

use std::io;

use rustix::io::Errno;

/// Whether the system may grant later what it refuses now: descriptors, memory, threads, space.
pub fn is_transient(error: &io::Error) -> bool {
    let refusals = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::INTR,
        Errno::AGAIN,
    ];
    let number = error.raw_os_error();
    // A simulated disk has no numbers.
    error.kind() == io::ErrorKind::StorageFull
        || number.is_some_and(|number| refusals.iter().any(|r| r.raw_os_error() == number))
}
