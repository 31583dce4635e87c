//! The requests in flight that can be interrupted.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::limits::EARLY_INTERRUPTS_MAX;

/// Requests that run as tasks, by their unique number.
#[derive(Default)]
pub(super) struct InterruptibleRequests(Mutex<Interrupts>);

#[derive(Default)]
struct Interrupts {
    requests: HashMap<u64, oneshot::Sender<()>>,
    /// Interrupts of requests that are not known: not yet, or replied to. Numbers are used once.
    early: VecDeque<u64>,
}

impl InterruptibleRequests {
    /// Adds a request; the receiver fires when it is interrupted, or was before.
    pub(super) fn add(&self, unique: u64) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut interrupts = self.0.lock();
        interrupts.requests.insert(unique, sender);
        let early = interrupts.early.iter().position(|of| *of == unique);
        if let Some(at) = early {
            interrupts.early.remove(at);
            interrupts.interrupt(unique);
        }
        receiver
    }

    pub(super) fn remove(&self, unique: u64) {
        self.0.lock().requests.remove(&unique);
    }

    /// Interrupts a request. False if it is unknown; it is interrupted when it is added.
    pub(super) fn interrupt(&self, unique: u64) -> bool {
        let mut interrupts = self.0.lock();
        let known = interrupts.interrupt(unique);
        if !known && !interrupts.early.contains(&unique) {
            if interrupts.early.len() == EARLY_INTERRUPTS_MAX {
                interrupts.early.pop_front();
            }
            interrupts.early.push_back(unique);
        }
        known
    }
}

impl Interrupts {
    fn interrupt(&mut self, unique: u64) -> bool {
        // It stays in the table until its reply, so that the kernel is not asked to send the
        // interrupt again.
        let sender = self.requests.get_mut(&unique).map(|sender| {
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

    #[test]
    fn an_interrupt_that_comes_before_its_request_is_kept_for_it() {
        let requests = InterruptibleRequests::default();
        assert!(!requests.interrupt(7) && !requests.interrupt(7));
        assert!(requests.add(8).try_recv().is_err());
        assert!(requests.add(7).try_recv().is_ok());
        for unique in 0..2 * EARLY_INTERRUPTS_MAX as u64 {
            requests.interrupt(100 + unique);
        }
        assert_eq!(requests.0.lock().early.len(), EARLY_INTERRUPTS_MAX);
    }
}
