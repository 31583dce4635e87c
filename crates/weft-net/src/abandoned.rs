//! Calls that their callers have dropped and the servers have not answered yet.
//!
//! A server that is told to cancel finishes what it cannot stop, and then answers. Until then the
//! call may take effect, so whoever repeats it, or writes the same bytes, waits here first.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The abandoned calls of all connections of a client.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    calls: Mutex<Pending>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    /// The number of the last one.
    last: u64,
    unanswered: BTreeSet<u64>,
}

impl Abandoned {
    /// A caller has dropped a call; returns its number here.
    pub(crate) fn add(&self) -> u64 {
        let mut calls = self.calls.lock();
        calls.last += 1;
        let number = calls.last;
        calls.unanswered.insert(number);
        number
    }

    /// The server has answered, or the connection was lost.
    pub(crate) fn remove(&self, number: u64) {
        self.calls.lock().unanswered.remove(&number);
        self.ended.notify_waiters();
    }

    /// Waits until all that are abandoned now have ended; later ones do not count.
    pub(crate) async fn all_ended(&self) {
        let last = self.calls.lock().last;
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            let first = self.calls.lock().unanswered.first().copied();
            if first.is_none_or(|first| first > last) {
                return;
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_calls_that_are_abandoned_before_are_waited_for() {
        let abandoned = Abandoned::default();
        abandoned.all_ended().await;
        let (first, second) = (abandoned.add(), abandoned.add());
        let mut both = Box::pin(abandoned.all_ended());
        assert!(futures_util::poll!(both.as_mut()).is_pending());
        let later = abandoned.add();
        abandoned.remove(second);
        assert!(futures_util::poll!(both.as_mut()).is_pending());
        abandoned.remove(first);
        both.await;
        abandoned.remove(later);
        abandoned.all_ended().await;
    }
}
