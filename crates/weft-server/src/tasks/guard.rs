//! Actions that must run even when a future is dropped at an await.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs its action when it is dropped, unless [`OnDrop::disarm`] was called.
pub(crate) struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    pub(crate) fn new(action: F) -> OnDrop<F> {
        OnDrop(Some(action))
    }

    /// Drops the guard without running its action.
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}

impl OnDrop<fn()> {
    /// Adds one to `count` until the guard is dropped.
    pub(crate) fn count(count: &AtomicUsize) -> OnDrop<impl FnOnce()> {
        count.fetch_add(1, Ordering::AcqRel);
        OnDrop::new(|| {
            count.fetch_sub(1, Ordering::AcqRel);
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn an_action_runs_once_on_drop_unless_it_is_disarmed() {
        let ran = Cell::new(0);
        drop(OnDrop::new(|| ran.set(ran.get() + 1)));
        OnDrop::new(|| ran.set(ran.get() + 1)).disarm();
        assert_eq!(ran.get(), 1);
        let waiting = AtomicUsize::new(0);
        let counted = OnDrop::count(&waiting);
        assert_eq!(waiting.load(Ordering::Relaxed), 1);
        drop(counted);
        assert_eq!(waiting.load(Ordering::Relaxed), 0);
    }
}
