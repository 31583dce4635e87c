//! What a process has of a connection, a file or a view.
//!
//! A child of `fork` has a copy of the handle, but neither the threads nor the connections behind
//! it. So it makes its own at the first use, and never frees what it inherited.
//!
//! The lock is held only by threads that hold the interpreter's lock, as a thread that forks does:
//! no child inherits it locked.

use std::mem::forget;

use parking_lot::Mutex;
use weft_ffi::Process;

/// A value that belongs to the process that made it.
pub(crate) struct PerProcess<T>(Mutex<Option<(Process, T)>>);

impl<T: Clone> PerProcess<T> {
    pub(crate) fn new(value: T) -> PerProcess<T> {
        PerProcess(Mutex::new(Some((Process::current(), value))))
    }

    /// A value that each process makes at its first use.
    pub(crate) fn empty() -> PerProcess<T> {
        PerProcess(Mutex::new(None))
    }

    /// The value, if it is this process's.
    pub(crate) fn get(&self) -> Option<T> {
        let held = self.0.lock();
        let (process, value) = held.as_ref()?;
        (*process == Process::current()).then(|| value.clone())
    }

    /// The value of this process, which `make` makes if it has none.
    pub(crate) fn get_or<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let value = make()?;
        self.set(Some(value.clone()));
        Ok(value)
    }

    /// Takes the value of this process away.
    pub(crate) fn take(&self) -> Option<T> {
        let value = self.get();
        self.set(None);
        value
    }

    fn set(&self, value: Option<T>) {
        let new = value.map(|value| (Process::current(), value));
        let old = std::mem::replace(&mut *self.0.lock(), new);
        drop_own(old);
    }
}

fn drop_own<T>(held: Option<(Process, T)>) {
    if let Some((process, value)) = held
        && process != Process::current()
    {
        // Its threads are in another process: to drop it would wait for them.
        forget(value);
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        drop_own(self.0.get_mut().take());
    }
}
