//! Requests by which the kernel learns a file's attributes, until it has taken their replies.
//!
//! The kernel discards the attributes of a reply when a notification about the file arrives between
//! the request and the reply. The program that called `stat` still sees the new size, but the
//! kernel keeps the old one and ends the next read there. An open is such a request, too: the read
//! that follows asks for the size. So a notification waits, within a bound, for the requests that
//! came before it, and a moment longer: for the kernel to take the reply, or to ask.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::limits::{ATTRIBUTES_TAKEN, NOTIFICATION_DELAY_MAX};

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
    /// Files with a reply that the kernel may not have taken yet, and when it has.
    replied: Vec<(u64, Instant)>,
}

impl InFlight {
    /// When a notification about the file may be sent; `None`: not before a reply.
    fn free_at(&mut self, file: u64, now: Instant) -> Option<Instant> {
        self.replied.retain(|(_, taken)| *taken > now);
        if self.requests.iter().any(|(of, _)| *of == file) {
            return None;
        }
        let of_file = self.replied.iter().filter(|(of, _)| *of == file);
        Some(of_file.map(|(_, taken)| *taken).max().unwrap_or(now))
    }
}

/// A request in flight; dropped after its reply.
#[derive(Debug)]
pub(super) struct InFlightGuard {
    requests: Arc<AttributeRequests>,
    file: u64,
    /// Its number, if notifications wait for its reply.
    number: Option<u64>,
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
            file,
            number: Some(number),
        }
    }

    /// Notes an open of a file. Its reply may itself wait for a notification: none waits for it.
    pub(super) fn begin_open(self: &Arc<Self>, file: u64) -> InFlightGuard {
        InFlightGuard {
            requests: self.clone(),
            file,
            number: None,
        }
    }

    /// Returns once every request about the file has its reply and the kernel has taken it, or
    /// after [`NOTIFICATION_DELAY_MAX`].
    pub(super) fn wait_for_replies(&self, file: u64) {
        let deadline = Instant::now() + NOTIFICATION_DELAY_MAX;
        let mut in_flight = self.in_flight.lock();
        loop {
            let now = Instant::now();
            let free = in_flight.free_at(file, now);
            if now >= deadline || free.is_some_and(|free| free <= now) {
                return;
            }
            let until = free.unwrap_or(deadline).min(deadline);
            let _ = self.replied.wait_until(&mut in_flight, until);
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut in_flight = self.requests.in_flight.lock();
        let now = Instant::now();
        let is_other = |(_, number): &(u64, u64)| Some(*number) != self.number;
        in_flight.requests.retain(is_other);
        in_flight.replied.retain(|(_, taken)| *taken > now);
        in_flight.replied.push((self.file, now + ATTRIBUTES_TAKEN));
        drop(in_flight);
        self.requests.replied.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_notification_waits_for_requests_about_its_file_only() {
        let requests = Arc::<AttributeRequests>::default();
        let other = requests.begin(8);
        let first = requests.begin(7);
        let began = Instant::now();
        let replier = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2));
            drop(first);
        });
        requests.wait_for_replies(7);
        assert!(began.elapsed() >= Duration::from_millis(2) + ATTRIBUTES_TAKEN);
        replier.join().unwrap();
        // Nothing is in flight about another file.
        let began = Instant::now();
        requests.wait_for_replies(9);
        assert!(began.elapsed() < ATTRIBUTES_TAKEN);
        assert_eq!(requests.in_flight.lock().requests.len(), 1);
        drop(other);
    }

    #[test]
    fn a_notification_waits_for_what_follows_an_open() {
        let requests = Arc::<AttributeRequests>::default();
        let open = requests.begin_open(7);
        let began = Instant::now();
        requests.wait_for_replies(7);
        assert!(began.elapsed() < ATTRIBUTES_TAKEN, "it waited for the open");
        drop(open);
        requests.wait_for_replies(7);
        assert!(began.elapsed() >= ATTRIBUTES_TAKEN);
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
