//! A flag for threads that work until a test says stop, also if that test fails before.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets its flag on drop. Without it a failed assertion beside such threads waits for them
/// forever.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
