//! Requests for a file's attributes that have no reply yet.
//!
//! The kernel discards the attributes of a reply when a notification about the file arrives between
//! the request and the reply. The program that called `stat` still sees the new size, but the
//! kernel keeps the old one and ends the next read there. So a notification waits, within a bound,
//! for the requests that came before it.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::limits::NOTIFICATION_DELAY_MAX;

/// The requests of a mount.
#[derive(Debug, Default)]
pub(super) struct AttributeRequests {
    in_flight: Mutex<InFlight>,
    replied: Condvar,
}

#[derive(Debug, Default)]
struct InFlight {
    next: u64,
    /// The file and the number of each request; few at a time.
    requests: Vec<(u64, u64)>,
}

/// A request in flight; dropped after its reply.
#[derive(Debug)]
pub(super) struct InFlightGuard {
    requests: Arc<AttributeRequests>,
    number: u64,
}

impl AttributeRequests {
    /// Notes a request about a file.
    pub(super) fn begin(self: &Arc<Self>, file: u64) -> InFlightGuard {
        let mut in_flight = self.in_flight.lock();
        let number = in_flight.next;
        in_flight.next += 1;
        in_flight.requests.push((file, number));
        InFlightGuard {
            requests: self.clone(),
            number,
        }
    }

    /// Returns once every earlier request about the file has its reply, or after
    /// [`NOTIFICATION_DELAY_MAX`].
    pub(super) fn wait_for_replies(&self, file: u64) {
        let deadline = Instant::now() + NOTIFICATION_DELAY_MAX;
        let mut in_flight = self.in_flight.lock();
        let next = in_flight.next;
        let earlier = |&(of, number): &(u64, u64)| of == file && number < next;
        while in_flight.requests.iter().any(earlier) {
            if self
                .replied
                .wait_until(&mut in_flight, deadline)
                .timed_out()
            {
                return;
            }
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut in_flight = self.requests.in_flight.lock();
        in_flight
            .requests
            .retain(|(_, number)| *number != self.number);
        drop(in_flight);
        self.requests.replied.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_notification_waits_for_earlier_requests_about_its_file_only() {
        let requests = Arc::<AttributeRequests>::default();
        let other = requests.begin(8);
        let first = requests.begin(7);
        let began = Instant::now();
        let replier = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2));
            drop(first);
        });
        requests.wait_for_replies(7);
        assert!(began.elapsed() >= Duration::from_millis(2));
        replier.join().unwrap();
        assert_eq!(requests.in_flight.lock().requests.len(), 1);
        drop(other);
    }

    #[test]
    fn a_request_without_a_reply_delays_a_notification_within_a_bound() {
        let requests = Arc::<AttributeRequests>::default();
        let _stuck = requests.begin(7);
        let began = Instant::now();
        requests.wait_for_replies(7);
        assert!(began.elapsed() >= NOTIFICATION_DELAY_MAX);
    }
}
