//! Answers on their way back to a queue's thread.

#![allow(
    unsafe_code,
    reason = "fills a slot that the kernel has handed over, see `slot`"
)]

use std::any::Any;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use super::slot::Slot;

/// A slot with an answer.
pub(super) struct Answered {
    /// Its place among the slots of the queue.
    pub(super) number: usize,
    pub(super) commit_id: u64,
    /// Dropped once the kernel has the answer.
    pub(super) held: Held,
}

pub(super) type Held = Option<Box<dyn Any + Send>>;

#[derive(Default)]
struct Waiting {
    answered: Vec<Answered>,
    /// The thread waits for the kernel, and hears of an answer only by the descriptor.
    asleep: bool,
    ended: bool,
}

/// What a queue's thread and those who answer its requests share.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    wake: OwnedFd,
}

impl Queue {
    pub(super) fn new() -> io::Result<Queue> {
        Ok(Queue {
            waiting: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Becomes readable each time that the thread is to wake.
    pub(super) fn descriptor(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    /// Takes all answers; the thread is about to wait.
    pub(super) fn sleep(&self, into: &mut Vec<Answered>) {
        let mut waiting = self.waiting.lock();
        into.append(&mut waiting.answered);
        waiting.asleep = true;
    }

    /// The thread is awake; false if it is to end.
    pub(super) fn wake(&self) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.asleep = false;
        !waiting.ended
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        self.waiting.lock().ended = true;
        self.ring_bell();
    }

    fn add(&self, answered: Answered) {
        let mut waiting = self.waiting.lock();
        waiting.answered.push(answered);
        if std::mem::take(&mut waiting.asleep) {
            drop(waiting);
            self.ring_bell();
        }
    }

    fn ring_bell(&self) {
        // Fails only if the counter is full: then it is readable in any case.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

/// The answer to a request that came through a ring.
pub(in crate::fuse) struct SlotAnswer {
    pub(super) queue: Arc<Queue>,
    pub(super) slot: Arc<Slot>,
    pub(super) answered: Answered,
}

impl SlotAnswer {
    /// Fills the slot and hands it to the queue's thread. `held` is dropped once the kernel has the
    /// answer.
    pub(in crate::fuse::device) fn send(
        mut self,
        unique: u64,
        (error, body): (i32, &[&[u8]]),
        held: Held,
    ) {
        // SAFETY: a worker makes one answer for each completion of the slot's command, and it is
        // used up here.
        let fits = unsafe { self.slot.answer(unique, error, body) };
        if !fits {
            tracing::warn!(
                unique,
                "an answer is longer than the kernel's request allows"
            );
        }
        self.answered.held = held;
        self.queue.add(self.answered);
    }
}
