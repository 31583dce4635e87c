//! A future that is first polled on the thread that creates it, and becomes a task of the runtime
//! only when something wakes it.
//!
//! The thread that receives a server's reply wakes the request that waits for it, and then runs the
//! request itself: nothing is handed from thread to thread between the kernel's request and its
//! reply. The same holds for small flushes that a sync or a close waits for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;
use tokio::runtime::Handle;

type Future = Pin<Box<dyn std::future::Future<Output = ()> + Send>>;

/// The state of the future.
#[derive(Default)]
enum TaskState {
    /// The creating thread polls it.
    #[default]
    Polled,
    /// The same, and it was woken meanwhile.
    Woken,
    /// It waits to be woken.
    Parked(Future),
    /// The runtime has it, or it has ended.
    Gone,
}

/// The first poll of a future, and its waker.
///
/// Cost: no task of the runtime is made, and no other thread wakes, for a future that never waits.
pub struct InlineTask {
    runtime: Handle,
    state: Mutex<TaskState>,
}

impl InlineTask {
    /// A place for one future, which goes on in `runtime`.
    pub fn new(runtime: &Handle) -> Arc<InlineTask> {
        Arc::new(InlineTask {
            runtime: runtime.clone(),
            state: Mutex::default(),
        })
    }

    /// The waker; the future, or a future inside it, may be polled with it before
    /// [`InlineTask::run`].
    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(self.clone())
    }

    /// Polls `future` here, inside the runtime's context; if it has to wait, it becomes a task when
    /// it is woken.
    pub fn run(&self, mut future: Future, waker: &Waker) {
        if future
            .as_mut()
            .poll(&mut Context::from_waker(waker))
            .is_ready()
        {
            *self.state.lock() = TaskState::Gone;
            return;
        }
        let mut state = self.state.lock();
        if matches!(*state, TaskState::Polled) {
            *state = TaskState::Parked(future);
            return;
        }
        *state = TaskState::Gone;
        drop(state);
        self.runtime.spawn(future);
    }
}

impl Wake for InlineTask {
    fn wake(self: Arc<Self>) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, TaskState::Gone) {
            TaskState::Parked(future) => {
                drop(state);
                self.runtime.spawn(future);
            }
            TaskState::Polled | TaskState::Woken => *state = TaskState::Woken,
            TaskState::Gone => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    }

    fn begin(runtime: &Handle, future: impl std::future::Future<Output = ()> + Send + 'static) {
        let inline = InlineTask::new(runtime);
        let _context = runtime.enter();
        inline.run(Box::pin(future), &inline.waker());
    }

    #[test]
    fn a_future_that_never_waits_finishes_on_the_creating_thread() {
        let runtime = runtime();
        let (sender, receiver) = mpsc::channel();
        begin(runtime.handle(), async move {
            sender.send(std::thread::current().id()).unwrap();
        });
        assert_eq!(receiver.try_recv().unwrap(), std::thread::current().id());
    }

    #[test]
    fn a_future_that_waits_continues_on_the_runtime_when_it_is_woken() {
        let runtime = runtime();
        let (sender, receiver) = mpsc::channel();
        let (wake, woken) = oneshot::channel();
        begin(runtime.handle(), async move {
            let number: i32 = woken.await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            sender.send((number, std::thread::current().id())).unwrap();
        });
        assert!(receiver.try_recv().is_err());
        wake.send(7).unwrap();
        let (number, thread) = receiver.recv_timeout(TEST_TIMEOUT).unwrap();
        assert_eq!(number, 7);
        assert_ne!(thread, std::thread::current().id());
    }

    #[test]
    fn a_wake_during_the_first_poll_is_not_lost() {
        let runtime = runtime();
        let (sender, receiver) = mpsc::channel();
        begin(runtime.handle(), async move {
            for _ in 0..3 {
                let mut polled = false;
                std::future::poll_fn(|context| {
                    context.waker().wake_by_ref();
                    if std::mem::replace(&mut polled, true) {
                        std::task::Poll::Ready(())
                    } else {
                        std::task::Poll::Pending
                    }
                })
                .await;
            }
            sender.send(()).unwrap();
        });
        receiver.recv_timeout(TEST_TIMEOUT).unwrap();
    }

    #[test]
    fn wakes_from_many_threads_spawn_the_future_once() {
        let runtime = runtime();
        for _ in 0..200 {
            let (sender, receiver) = mpsc::channel();
            let notify = Arc::new(tokio::sync::Notify::new());
            let waited = notify.clone();
            begin(runtime.handle(), async move {
                waited.notified().await;
                sender.send(()).unwrap();
            });
            let wakers: Vec<_> = (0..2)
                .map(|_| {
                    let notify = notify.clone();
                    std::thread::spawn(move || notify.notify_one())
                })
                .collect();
            receiver.recv_timeout(TEST_TIMEOUT).unwrap();
            for waker in wakers {
                waker.join().unwrap();
            }
            assert!(receiver.recv_timeout(Duration::from_millis(1)).is_err());
        }
    }
}
