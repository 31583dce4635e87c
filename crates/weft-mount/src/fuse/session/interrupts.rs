//! The requests in flight that can be interrupted.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Requests that run as tasks, by their unique number.
#[derive(Default)]
pub(super) struct InterruptibleRequests(Mutex<HashMap<u64, oneshot::Sender<()>>>);

impl InterruptibleRequests {
    /// Adds a request; the receiver fires when it is interrupted.
    pub(super) fn add(&self, unique: u64) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().insert(unique, sender);
        receiver
    }

    pub(super) fn remove(&self, unique: u64) {
        self.0.lock().remove(&unique);
    }

    /// Interrupts a request; false if it is unknown (not yet added, or replied to).
    pub(super) fn interrupt(&self, unique: u64) -> bool {
        // It stays in the table until its reply, so that the kernel is not asked to send the
        // interrupt again.
        let sender = self.0.lock().get_mut(&unique).map(|sender| {
            let (spent, _) = oneshot::channel();
            std::mem::replace(sender, spent)
        });
        sender.is_some_and(|sender| {
            let _ = sender.send(());
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_in_flight_are_interrupted() {
        let requests = InterruptibleRequests::default();
        let mut interrupted = requests.add(7);
        assert!(!requests.interrupt(8));
        assert!(interrupted.try_recv().is_err());
        assert!(requests.interrupt(7));
        assert!(interrupted.try_recv().is_ok());
        assert!(requests.interrupt(7), "the request is still in flight");
        requests.remove(7);
        assert!(!requests.interrupt(7));
    }
}
