//! The thread of one queue.

#![allow(
    unsafe_code,
    reason = "submits commands whose memory the ring must not outlive, see `slot`"
)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::commands::{self, WAKE};
use super::queue::{Answered, Queue, SlotAnswer};
use super::slot::Slot;
use crate::fuse::device::buffers::Buffers;
use crate::fuse::device::descriptor::Device;
use crate::fuse::device::incoming::Incoming;
use crate::limits::{RING_ENTRIES, RING_RETRY_INTERVAL, RING_SLOTS, RING_SLOTS_MAX};

/// What a queue serves.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) device: Arc<Device>,
    /// Bytes of a slot.
    pub(super) length: usize,
    pub(super) buffers: Buffers,
    pub(super) ask: Ask,
}

/// Makes the kernel send a request that is answered at once; an error if the mount has ended.
pub(super) type Ask = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// A queue's ring; it stays on the thread that made it.
pub(super) struct Worker {
    // Dropped first: the kernel lets go of the slots.
    ring: IoUring<Entry128, cqueue::Entry>,
    /// Its number is that of its processor.
    number: u16,
    queue: Arc<Queue>,
    slots: Vec<Arc<Slot>>,
    /// Slots that the kernel holds.
    free: usize,
    /// Slots that the kernel has given up.
    lost: usize,
    /// Completions that are not looked at yet.
    completed: Vec<cqueue::Entry>,
    /// The kernel takes no slots, or no more.
    closed: bool,
    /// Requests may wait in the kernel although it has free slots.
    stranded: Arc<AtomicBool>,
}

impl Worker {
    /// Makes the ring, on the processor that the queue is for. A processor that is off, or that
    /// this process may not use, makes no requests worth a thread at its side.
    pub(super) fn new(number: u16, queue: Arc<Queue>) -> io::Result<Worker> {
        stay_on(number);
        let mut builder = IoUring::<Entry128, cqueue::Entry>::builder();
        builder.setup_cqsize(RING_ENTRIES * 4);
        builder.setup_single_issuer().setup_defer_taskrun();
        Ok(Worker {
            ring: builder.build(RING_ENTRIES)?,
            number,
            queue,
            slots: Vec::new(),
            free: 0,
            lost: 0,
            completed: Vec::new(),
            closed: false,
            stranded: Arc::default(),
        })
    }

    /// Hands the first slots to the kernel.
    ///
    /// # Errors
    /// The kernel takes no slots: no request will come this way.
    pub(super) fn register(&mut self, source: &Source) -> io::Result<()> {
        self.push(&commands::wake(self.queue.descriptor()));
        self.add_slots(source, RING_SLOTS);
        self.ring.submit()?;
        // A slot that is taken completes with its first request; one that is not, at once.
        self.completed.extend(self.ring.completion());
        let refused = self.completed.iter().find(|done| done.result() < 0);
        self.closed = refused.is_some();
        refused.map_or(Ok(()), |done| {
            Err(io::Error::from_raw_os_error(-done.result()))
        })
    }

    /// Serves until the queue ends. `take` gets the requests that came together.
    pub(super) fn serve(mut self, source: &Source, take: &dyn Fn(Vec<(Incoming, SlotAnswer)>)) {
        let mut answered = Vec::new();
        loop {
            let mut completed = std::mem::take(&mut self.completed);
            self.make_room(source, &completed);
            let requests = completed
                .drain(..)
                .filter_map(|done| self.complete(source, &done));
            take(requests.collect());
            self.completed = completed;
            answered.clear();
            self.queue.sleep(&mut answered);
            for slot in &answered {
                self.free += 1;
                let (device, number) = (source.device.number(), slot.number);
                self.push(&commands::commit(
                    device,
                    self.number,
                    number,
                    slot.commit_id,
                ));
            }
            if answered.iter().any(|slot| slot.held.is_some()) {
                self.enter(0);
                for slot in &mut answered {
                    slot.held = None;
                }
            }
            self.note_drawn(&answered);
            if self.completed.is_empty() {
                self.enter(1);
            }
            if !self.queue.wake() {
                return;
            }
            self.completed.extend(self.ring.completion());
        }
    }

    /// A slot that is handed over takes a request that waits in the kernel along, within the call
    /// that hands it over; a later request comes by another. So none waits any more if a slot did
    /// not take one.
    fn note_drawn(&mut self, handed_over: &[Answered]) {
        if !self.stranded.load(Ordering::Relaxed) {
            return;
        }
        self.enter(0);
        self.completed.extend(self.ring.completion());
        let is_back = |slot: &Answered| {
            let number = slot.number as u64;
            self.completed.iter().any(|done| done.user_data() == number)
        };
        if !handed_over.iter().all(is_back) && self.ring.submission().is_empty() {
            self.stranded.store(false, Ordering::Relaxed);
        }
    }

    /// Adds slots if the kernel has few left. Some of its requests may have found none already,
    /// whose completions are on their way: they stay in the kernel even if new slots come, and each
    /// answer to another request draws one out.
    fn make_room(&mut self, source: &Source, completed: &[cqueue::Entry]) {
        let taken = completed.iter().filter(|done| done.user_data() != WAKE);
        self.free -= taken.count();
        let slots = self.slots.len() - self.lost;
        if self.closed || self.free > slots / 2 || self.slots.len() >= RING_SLOTS_MAX {
            return;
        }
        self.add_slots(source, slots.max(RING_SLOTS));
        self.enter(0);
        if !self.stranded.swap(true, Ordering::Relaxed) {
            draw_out(self.number, self.stranded.clone(), source.ask.clone());
        }
    }

    fn complete(
        &mut self,
        source: &Source,
        done: &cqueue::Entry,
    ) -> Option<(Incoming, SlotAnswer)> {
        if done.user_data() == WAKE {
            if !cqueue::more(done.flags()) {
                self.push(&commands::wake(self.queue.descriptor()));
            }
            return None;
        }
        let number = done.user_data() as usize;
        if done.result() < 0 {
            self.note_lost(&io::Error::from_raw_os_error(-done.result()));
            return None;
        }
        let slot = self.slots[number].clone();
        // SAFETY: the slot's command has completed, and its answer is made below.
        let (numbers, incoming) = unsafe { slot.request(&source.buffers) };
        let answer = SlotAnswer {
            queue: self.queue.clone(),
            slot,
            answered: Answered {
                number,
                commit_id: numbers.commit_id,
                held: None,
            },
        };
        let Some(incoming) = incoming else {
            tracing::warn!("the kernel sent a request whose lengths do not add up");
            answer.send(numbers.unique, (-libc::EIO, &[]), None);
            return None;
        };
        Some((incoming, answer))
    }

    /// The kernel has given up a slot: all of them if the mount ends.
    fn note_lost(&mut self, error: &io::Error) {
        self.lost += 1;
        let ends = [libc::ENOTCONN, libc::ECONNABORTED, libc::ECANCELED];
        if error
            .raw_os_error()
            .is_some_and(|errno| ends.contains(&errno))
        {
            self.closed = true;
        } else if self.lost == 1 {
            tracing::warn!(%error, "the kernel has given up a slot for requests");
        }
    }

    fn add_slots(&mut self, source: &Source, count: usize) {
        for _ in 0..count {
            let number = self.slots.len();
            let slot = Arc::new(Slot::new(source.length));
            let register = commands::register(source.device.number(), self.number, number, &slot);
            self.slots.push(slot);
            self.free += 1;
            self.push(&register);
        }
    }

    /// Puts an entry into the submission queue.
    fn push(&mut self, entry: &Entry128) {
        // SAFETY: an entry's memory is that of a slot, which `slots` keeps until the ring is
        // dropped, or a descriptor that the queue keeps.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.enter(0);
        }
    }

    /// Submits what is queued, and waits for as many completions.
    fn enter(&self, wanted: usize) {
        match self.ring.submit_and_wait(wanted) {
            Ok(_) => {}
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => {}
            // Without this thread the programs on its processor would wait for ever.
            Err(error) => {
                tracing::error!(%error, "a ring does not work; trying again");
                std::thread::sleep(RING_RETRY_INTERVAL);
            }
        }
    }
}

/// Whether the thread may run on this processor, from now on only there.
fn stay_on(processor: u16) -> bool {
    let mut set = CpuSet::new();
    let processor = usize::from(processor);
    if processor >= CpuSet::MAX_CPU {
        return false;
    }
    set.set(processor);
    sched_setaffinity(None, &set).is_ok()
}

/// Makes requests on a processor until none waits in the kernel without need.
fn draw_out(processor: u16, stranded: Arc<AtomicBool>, ask: Ask) {
    let draw = move || {
        let mut goes_on = stay_on(processor);
        while stranded.load(Ordering::Relaxed) {
            if !goes_on {
                // The mount has ended, or requests from here would go to another queue.
                return stranded.store(false, Ordering::Relaxed);
            }
            goes_on = ask().is_ok();
            std::thread::yield_now();
        }
    };
    // Without a thread each request of a program on this processor draws one out.
    let _ = std::thread::Builder::new().spawn(draw);
}
