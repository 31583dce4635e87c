//! A future that is polled at once where it begins, and becomes a task of the runtime only when
//! something wakes it.
//!
//! A request that waits for a server is woken by the thread that takes the server's reply, which
//! then carries it on itself: between the kernel's request and its answer nothing is handed from
//! thread to thread. So is what a request waits for: the few bytes that a sync or a close sends
//! off.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;
use tokio::runtime::Handle;

type Future = Pin<Box<dyn std::future::Future<Output = ()> + Send>>;

/// Where a future that has begun is.
#[derive(Default)]
enum Place {
    /// On the thread that began it.
    #[default]
    Here,
    /// There, and woken meanwhile.
    Woken,
    /// Nowhere: it waits to be woken.
    Waiting(Future),
    /// On the runtime, or at its end.
    Gone,
}

/// A future's beginning, and its waker.
pub(crate) struct Begun {
    runtime: Handle,
    place: Mutex<Place>,
}

impl Begun {
    pub(crate) fn new(runtime: &Handle) -> Arc<Begun> {
        Arc::new(Begun {
            runtime: runtime.clone(),
            place: Mutex::default(),
        })
    }

    /// The waker with which the future, or a part of it, may be polled before [`Begun::go_on`].
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(self.clone())
    }

    /// Polls `future` here, inside the runtime's context; if it waits, it goes on as a task once it
    /// is woken.
    pub(crate) fn go_on(&self, mut future: Future, waker: &Waker) {
        if future
            .as_mut()
            .poll(&mut Context::from_waker(waker))
            .is_ready()
        {
            *self.place.lock() = Place::Gone;
            return;
        }
        let mut place = self.place.lock();
        if matches!(*place, Place::Here) {
            *place = Place::Waiting(future);
            return;
        }
        *place = Place::Gone;
        drop(place);
        self.runtime.spawn(future);
    }
}

impl Wake for Begun {
    fn wake(self: Arc<Self>) {
        let mut place = self.place.lock();
        match std::mem::replace(&mut *place, Place::Gone) {
            Place::Waiting(future) => {
                drop(place);
                self.runtime.spawn(future);
            }
            Place::Here | Place::Woken => *place = Place::Woken,
            Place::Gone => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    }

    fn begin(runtime: &Handle, future: impl std::future::Future<Output = ()> + Send + 'static) {
        let begun = Begun::new(runtime);
        let _context = runtime.enter();
        begun.go_on(Box::pin(future), &begun.waker());
    }

    #[test]
    fn what_waits_for_nothing_ends_on_the_thread_that_begins_it() {
        let runtime = runtime();
        let (said, heard) = mpsc::channel();
        begin(runtime.handle(), async move {
            said.send(std::thread::current().id()).unwrap();
        });
        assert_eq!(heard.try_recv().unwrap(), std::thread::current().id());
    }

    #[test]
    fn what_waits_goes_on_elsewhere_when_it_is_woken() {
        let runtime = runtime();
        let (said, heard) = mpsc::channel();
        let (wake, woken) = oneshot::channel();
        begin(runtime.handle(), async move {
            let number: i32 = woken.await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            said.send((number, std::thread::current().id())).unwrap();
        });
        assert!(heard.try_recv().is_err());
        wake.send(7).unwrap();
        let (number, thread) = heard.recv_timeout(SOON).unwrap();
        assert_eq!(number, 7);
        assert_ne!(thread, std::thread::current().id());
    }

    #[test]
    fn a_wake_during_the_first_poll_is_not_lost() {
        let runtime = runtime();
        let (said, heard) = mpsc::channel();
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
            said.send(()).unwrap();
        });
        heard.recv_timeout(SOON).unwrap();
    }

    #[test]
    fn wakes_from_many_threads_spawn_it_once() {
        let runtime = runtime();
        for _ in 0..200 {
            let (said, heard) = mpsc::channel();
            let notify = Arc::new(tokio::sync::Notify::new());
            let waited = notify.clone();
            begin(runtime.handle(), async move {
                waited.notified().await;
                said.send(()).unwrap();
            });
            let wakers: Vec<_> = (0..2)
                .map(|_| {
                    let notify = notify.clone();
                    std::thread::spawn(move || notify.notify_one())
                })
                .collect();
            heard.recv_timeout(SOON).unwrap();
            for waker in wakers {
                waker.join().unwrap();
            }
            assert!(heard.recv_timeout(Duration::from_millis(1)).is_err());
        }
    }
}
