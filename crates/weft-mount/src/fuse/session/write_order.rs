//! Page reads that must not overtake page writes.
//!
//! A write through the kernel's pages is in its page before the kernel sends it. If the kernel
//! drops the page meanwhile (another program opens the file, or the file has a new size), a program
//! with a map reads the page again. The kernel has queued that read behind the write, but another
//! thread of the mount may take it and be faster. The page would then show the bytes from before
//! the write, and once the program changes another byte in it, write them back.
//!
//! So such a read waits for the earlier writes of its file. The kernel numbers its requests in the
//! order in which it queues them, in steps of two. A number that is missing below the read's own is
//! in the hands of a thread that is about to register it, or was taken back because its program was
//! killed; the read waits for it, for a bounded time.
//!
//! Invariant: a thread registers a request before it takes the next one.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::limits::{
    MISSING_REQUEST_TIMEOUT, MISSING_REQUESTS_MAX, REQUESTS_AHEAD_MAX, REQUESTS_PER_MISSING,
};

/// From one request's number to the next.
const STEP: u64 = 2;
/// Marks a request that the kernel sends again; its number is an old one.
const RESENT: u64 = 1 << 63;

#[derive(Debug, Default)]
struct State {
    /// All requests with smaller numbers are registered, or were taken back. 0: the numbers are in
    /// no order that is known here, and nothing waits.
    next: u64,
    /// Registered numbers from `next` on.
    ahead: BTreeSet<u64>,
    /// Writes through pages in progress: their numbers and files.
    writes: Vec<(u64, u64)>,
    /// Numbers that did not come in time, less one for each [`REQUESTS_PER_MISSING`] that came in
    /// order.
    missed: u32,
    in_order: u32,
}

impl State {
    /// Whether nothing that a read waits for came before it.
    fn may_read(&self, unique: u64, file: u64) -> bool {
        let earlier = |(number, of): &(u64, u64)| *number < unique && *of == file;
        (self.next == 0 || self.next >= unique) && !self.writes.iter().any(earlier)
    }

    fn skip_to(&mut self, unique: u64) {
        self.next = self.next.max(unique);
        self.ahead = self.ahead.split_off(&self.next);
        while self.ahead.remove(&self.next) {
            self.next += STEP;
        }
    }
}

/// The requests that have arrived, and the writes among them.
#[derive(Debug, Default)]
pub(super) struct WriteOrder {
    state: Mutex<State>,
    changed: Notify,
}

/// A write through pages in progress.
pub(super) struct OrderedWrite {
    order: Arc<WriteOrder>,
    unique: u64,
}

impl Drop for OrderedWrite {
    fn drop(&mut self) {
        let mut state = self.order.state.lock();
        state.writes.retain(|(number, _)| *number != self.unique);
        drop(state);
        self.order.changed.notify_waiters();
    }
}

impl WriteOrder {
    /// The first request had this number.
    pub(super) fn begin(first: u64) -> WriteOrder {
        let state = State {
            next: first + STEP,
            ..State::default()
        };
        WriteOrder {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Registers a request. `writes`: the file that it writes through pages.
    pub(super) fn arrived(
        self: &Arc<Self>,
        unique: u64,
        writes: Option<u64>,
    ) -> Option<OrderedWrite> {
        let mut state = self.state.lock();
        if state.next != 0 && unique.is_multiple_of(STEP) && unique & RESENT == 0 {
            if unique == state.next {
                state.skip_to(unique + STEP);
                state.in_order += 1;
                if state.in_order >= REQUESTS_PER_MISSING {
                    state.in_order = 0;
                    state.missed = state.missed.saturating_sub(1);
                }
            } else if unique > state.next {
                state.ahead.insert(unique);
                if state.ahead.len() > REQUESTS_AHEAD_MAX {
                    // As many requests are in no thread's hands.
                    let first = state.ahead.first().copied().unwrap_or(unique);
                    state.skip_to(first);
                }
            }
        }
        let write = writes.map(|file| {
            state.writes.push((unique, file));
            OrderedWrite {
                order: self.clone(),
                unique,
            }
        });
        drop(state);
        self.changed.notify_waiters();
        write
    }

    /// Waits until the writes of a file that the kernel queued before this read are done.
    pub(super) async fn before_read(&self, unique: u64, file: u64) {
        if unique & RESENT != 0 {
            return;
        }
        let deadline = Instant::now() + MISSING_REQUEST_TIMEOUT;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let missing = {
                let state = self.state.lock();
                if state.may_read(unique, file) {
                    return;
                }
                state.next != 0 && state.next < unique
            };
            if !missing {
                changed.await;
            } else if timeout_at(deadline, changed).await.is_err() {
                self.give_up(unique);
            }
        }
    }

    /// A number below this one did not come in time.
    fn give_up(&self, unique: u64) {
        let mut state = self.state.lock();
        if state.next == 0 || state.next >= unique {
            return;
        }
        state.missed += 1;
        if state.missed > MISSING_REQUESTS_MAX {
            tracing::warn!(
                "this kernel numbers requests in no known order: a map may show bytes from before a write that is in progress"
            );
            (state.next, state.ahead) = (0, BTreeSet::new());
        } else {
            state.skip_to(unique);
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::time::timeout;

    use super::*;

    fn waits(order: &WriteOrder, unique: u64, file: u64) -> bool {
        order.before_read(unique, file).now_or_never().is_none()
    }

    #[tokio::test]
    async fn a_read_waits_for_earlier_writes_of_its_file_and_for_missing_requests() {
        let order = Arc::new(WriteOrder::begin(2));
        let write = order.arrived(4, Some(7));
        order.arrived(8, None);
        assert!(waits(&order, 8, 9), "request 6 may be a write");
        let later = order.arrived(6, Some(9));
        order.arrived(10, None);
        assert!(waits(&order, 10, 7) && waits(&order, 10, 9));
        assert!(!waits(&order, 10, 1), "a file that is not written");
        assert!(!waits(&order, 4, 9), "a write that came later");
        drop(write);
        assert!(!waits(&order, 10, 7) && waits(&order, 10, 9));
        drop(later);
        assert!(!waits(&order, 10, 9));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_taken_back_is_waited_for_once() {
        let order = Arc::new(WriteOrder::begin(2));
        order.arrived(6, None);
        let started = Instant::now();
        order.before_read(6, 1).await;
        assert!(started.elapsed() >= MISSING_REQUEST_TIMEOUT);
        order.arrived(8, None);
        assert!(!waits(&order, 8, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn numbers_in_no_order_stop_nothing_for_long() {
        let order = Arc::new(WriteOrder::begin(2));
        for n in 1..100_u64 {
            order.arrived(n * 1000, None);
            order.before_read(n * 1000, 1).await;
        }
        let started = Instant::now();
        order.before_read(1_000_000, 1).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        let write = order.arrived(2_000_000, Some(1));
        let read = order.before_read(3_000_000, 1);
        assert!(timeout(Duration::from_mins(1), read).await.is_err());
        drop(write);
    }

    #[tokio::test]
    async fn a_number_that_never_comes_costs_bounded_memory() {
        let order = Arc::new(WriteOrder::begin(2));
        for n in 3..100_000_u64 {
            order.arrived(n * STEP, None);
        }
        assert!(order.state.lock().ahead.len() <= REQUESTS_AHEAD_MAX);
        assert!(!waits(&order, 200_000, 1));
    }
}
