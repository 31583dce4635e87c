//! A few threads for blocking work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{io, thread};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::storage::BlockingTask;

type Job = (BlockingTask, oneshot::Sender<()>);

/// Threads that take jobs from one queue. They end when the queue is dropped and empty.
pub(super) struct Workers(Sender<Job>);

impl Workers {
    pub(super) fn start(threads: usize) -> io::Result<Self> {
        let (send, receive) = channel::<Job>();
        let receive = Arc::new(Mutex::new(receive));
        for n in 0..threads {
            let receive = Arc::clone(&receive);
            thread::Builder::new()
                .name(format!("weft-disk-{n}"))
                .spawn(move || work(&receive))?;
        }
        Ok(Self(send))
    }

    /// Queues a job; the receiver resolves when it is done.
    pub(super) fn run(&self, work: BlockingTask) -> oneshot::Receiver<()> {
        let (send, receive) = oneshot::channel();
        // The threads hold the receiver for as long as this sender lives.
        let _ = self.0.send((work, send));
        receive
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let Ok((work, done)) = jobs.lock().recv() else {
            return;
        };
        // A panic is the caller's error: its receiver fails. The thread goes on with the next job.
        if catch_unwind(AssertUnwindSafe(work)).is_ok() {
            // The caller may have been cancelled.
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panicking_job_does_not_end_its_thread() {
        let workers = Workers::start(1).unwrap();
        let panicked = workers.run(Box::new(|| panic!("injected")));
        let next = workers.run(Box::new(|| {}));
        assert!(panicked.await.is_err());
        next.await.unwrap();
    }
}
