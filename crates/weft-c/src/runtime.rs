//! Forks.

/// Tells the library that this process is a child of the one that used it before.
///
/// A child made by `fork()` need not call this: the library notices by itself. It is for children
/// made by other means that copy the memory, such as the system call `clone`. Call it once in the
/// child, before anything else of this library, while the child has one thread.
///
/// In the child, handles of the parent are refused with -EBADF; freeing them does nothing. Connect
/// again there. The parent goes on as before. A program that calls `exec` in the child need not
/// call this.
#[unsafe(no_mangle)]
pub extern "C" fn weft_after_fork() {
    weft_ffi::after_fork();
}
