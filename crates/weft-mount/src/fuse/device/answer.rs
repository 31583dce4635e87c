//! The one answer to a request.

use std::any::Any;
use std::sync::Arc;

use super::descriptor::Device;
use super::ring::SlotAnswer;

/// The answer that a request's program waits for. It takes the way that the request came.
///
/// Dropped unused it refuses the request with `EIO`: without an answer the program would wait for
/// ever.
pub(in crate::fuse) struct Answer {
    unique: u64,
    way: Option<Way>,
    /// Dropped once the kernel has the answer.
    held: Option<Box<dyn Any + Send>>,
}

enum Way {
    Device(Arc<Device>),
    Ring(SlotAnswer),
}

impl Answer {
    /// The answer to a request that was read from `device`.
    pub(in crate::fuse) fn by_device(device: Arc<Device>, unique: u64) -> Answer {
        Answer::by(Way::Device(device), unique)
    }

    /// The answer to a request that came through a ring.
    pub(in crate::fuse) fn by_ring(slot: SlotAnswer, unique: u64) -> Answer {
        Answer::by(Way::Ring(slot), unique)
    }

    fn by(way: Way, unique: u64) -> Answer {
        Answer {
            unique,
            way: Some(way),
            held: None,
        }
    }

    /// Keeps something until the kernel has the answer, which may be after [`Answer::reply`] has
    /// returned.
    pub(in crate::fuse) fn hold<T: Send + 'static>(&mut self, guard: Option<T>) {
        self.held = guard.map(|guard| Box::new(guard) as Box<dyn Any + Send>);
    }

    /// The request succeeded.
    pub(in crate::fuse) fn reply(mut self, body: &[&[u8]]) {
        self.send(0, body);
    }

    /// The request fails with an errno.
    pub(in crate::fuse) fn refuse(mut self, errno: i32) {
        self.send(-errno, &[]);
    }

    /// No program waits: a forget, or an interrupt that has arrived.
    pub(in crate::fuse) fn forgo(mut self) {
        // The kernel sends neither through a ring; a slot has to go back in any case.
        if let Some(Way::Ring(_)) = self.way {
            self.send(0, &[]);
        }
        self.way = None;
    }

    fn send(&mut self, error: i32, body: &[&[u8]]) {
        match self.way.take() {
            Some(Way::Device(device)) => device.answer(self.unique, error, body),
            Some(Way::Ring(slot)) => slot.send(self.unique, (error, body), self.held.take()),
            None => {}
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.send(-libc::EIO, &[]);
    }
}
