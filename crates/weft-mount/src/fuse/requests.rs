//! The requests under way, so that they can be interrupted.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Requests that go on as tasks, by their unique number.
#[derive(Default)]
pub(super) struct Requests(Mutex<HashMap<u64, oneshot::Sender<()>>>);

impl Requests {
    /// A request goes on; the receiver hears when it is interrupted.
    pub(super) fn add(&self, unique: u64) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().insert(unique, sender);
        receiver
    }

    pub(super) fn remove(&self, unique: u64) {
        self.0.lock().remove(&unique);
    }

    /// Interrupts a request; false if it is not known (yet, or any more).
    pub(super) fn interrupt(&self, unique: u64) -> bool {
        // It stays known until it is answered, so that the kernel is not told to interrupt it
        // again.
        let sender = self.0.lock().get_mut(&unique).map(|sender| {
            let (nobody, _) = oneshot::channel();
            std::mem::replace(sender, nobody)
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
    fn only_requests_under_way_are_interrupted() {
        let requests = Requests::default();
        let mut heard = requests.add(7);
        assert!(!requests.interrupt(8));
        assert!(heard.try_recv().is_err());
        assert!(requests.interrupt(7));
        assert!(heard.try_recv().is_ok());
        assert!(requests.interrupt(7), "it is still under way");
        requests.remove(7);
        assert!(!requests.interrupt(7));
    }
}
