//! Operations in the background.
//!
//! An operation is a boxed future of what came of it. Its task goes on by itself; a descriptor
//! makes one more task that waits and then signals.

use std::future::{Future, poll_fn};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::oneshot;
use weft_client::{Error, Operation, wait_any};

use crate::failure::Failure;
use crate::memory::Loans;
use crate::runtime::runtime;

/// What came of an operation: bytes moved.
type Outcome = Result<i64, Error>;

/// An operation in the background: posted now, tested and waited for later. Its memory belongs to
/// it until [`Posted::wait`] or [`Posted::cancel`] has returned. One thread at a time tests it or
/// waits for it.
pub struct Posted {
    state: Mutex<State>,
    loans: Arc<Loans>,
}

struct State {
    running: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    /// Has it end early.
    cancel: oneshot::Sender<()>,
    ended: Option<Outcome>,
    signal: Option<Signal>,
}

/// The descriptor of an operation; a task makes it readable.
type Signal = Arc<OwnedFd>;

impl State {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.ended.is_none() {
            let Poll::Ready(ended) = self.running.as_mut().poll(context) else {
                return Poll::Pending;
            };
            self.ended = Some(ended);
        }
        Poll::Ready(())
    }
}

impl Posted {
    /// Follows an operation whose outcome has so many bytes, and whose memory is lent by `loans`.
    pub fn new<T: Send + 'static>(
        loans: Arc<Loans>,
        operation: Operation<T>,
        bytes: impl FnOnce(T) -> u64 + Send + 'static,
    ) -> Posted {
        let (cancel, cancelled) = oneshot::channel();
        let running = async move {
            let ended = end(operation, cancelled).await?;
            Ok(bytes(ended) as i64)
        };
        Posted {
            state: Mutex::new(State {
                running: Box::pin(running),
                cancel,
                ended: None,
                signal: None,
            }),
            loans,
        }
    }

    /// Whether it has ended. Never waits.
    ///
    /// # Errors
    /// When another thread tests it or waits for it.
    pub fn has_ended(&self) -> Result<bool, Failure> {
        let mut state = self.state()?;
        let ended = state.poll(&mut Context::from_waker(Waker::noop()));
        Ok(ended.is_ready())
    }

    /// Waits until it has ended. Returns the bytes moved. After it the memory is the caller's
    /// again.
    ///
    /// # Errors
    /// Those of the call that was posted.
    pub fn wait(self) -> Result<i64, Failure> {
        let Posted { state, loans } = self;
        let mut state = state.into_inner();
        runtime()?.block_on(poll_fn(|context| state.poll(context)));
        let ended = state.ended.take();
        drop(state);
        loans.wait();
        Ok(ended.expect("it was polled until it had ended")?)
    }

    /// Has it end early, and waits until neither its memory is used any more nor a server works on
    /// it.
    ///
    /// # Errors
    /// When there is no runtime.
    pub fn cancel(self) -> Result<(), Failure> {
        let Posted { state, loans } = self;
        let State {
            mut running,
            cancel,
            ended,
            ..
        } = state.into_inner();
        // It may have ended by itself.
        let _ = cancel.send(());
        if ended.is_none() {
            let _ = runtime()?.block_on(&mut running);
        }
        drop((running, ended));
        loans.wait();
        Ok(())
    }

    /// A descriptor that becomes readable when it has ended. It belongs to the operation.
    ///
    /// # Errors
    /// When there are no descriptors left, or another thread tests the operation or waits for it.
    pub fn descriptor(&self) -> Result<RawFd, Failure> {
        let mut state = self.state()?;
        if state.signal.is_none() {
            let signal = signal(&mut state)?;
            state.signal = Some(signal);
        }
        let signal = state.signal.as_ref().expect("it was just made");
        Ok(signal.as_raw_fd())
    }

    /// Waits until one of these operations has ended, for so long at most. Returns its index.
    ///
    /// # Errors
    /// `ETIMEDOUT`; `EINVAL` where there are none.
    pub fn wait_any(operations: &[&Posted], limit: Option<Duration>) -> Result<usize, Failure> {
        let states: Result<Vec<_>, _> = operations.iter().map(|posted| posted.state()).collect();
        let mut states = states?;
        if states.is_empty() {
            return Err(Failure::invalid("there is no operation to wait for"));
        }
        let any = poll_fn(|context| {
            let ended = states
                .iter_mut()
                .position(|state| state.poll(context).is_ready());
            ended.map_or(Poll::Pending, Poll::Ready)
        });
        let runtime = runtime()?;
        let Some(limit) = limit else {
            return Ok(runtime.block_on(any));
        };
        let _context = runtime.enter();
        let limited = runtime.block_on(async { tokio::time::timeout(limit, any).await });
        limited.map_err(|_| {
            let limit = limit.as_millis();
            let message = format!("none of the operations has ended in {limit} ms");
            Failure::new(libc::ETIMEDOUT, message)
        })
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, Failure> {
        let busy = "another thread tests this operation or waits for it";
        self.state
            .try_lock()
            .ok_or_else(|| Failure::new(libc::EBUSY, busy))
    }
}

/// Waits for an operation, or for the wish to cancel it and then for its early end.
async fn end<T>(operation: Operation<T>, cancelled: oneshot::Receiver<()>) -> Result<T, Error> {
    let mut operations = [operation];
    tokio::select! {
        biased;
        _ = wait_any(&mut operations) => {
            let [operation] = operations;
            operation.wait().await
        }
        Ok(()) = cancelled => {
            let [operation] = operations;
            operation.cancel().await;
            Err(stopped("it was cancelled"))
        }
    }
}

fn stopped(reason: &str) -> Error {
    Error::Protocol {
        what: "wait for an operation".to_owned(),
        reason: reason.to_owned(),
    }
}

/// Has a task wait for an operation, and signal when it has ended.
fn signal(state: &mut State) -> Result<Signal, Failure> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let made = eventfd(0, flags).map_err(|errno| {
        let message = format!("cannot make a descriptor for an operation: {errno}");
        Failure::new(errno.raw_os_error(), message)
    })?;
    let descriptor = Arc::new(made);
    let (send, receive) = oneshot::channel();
    let received = async move {
        receive
            .await
            .unwrap_or_else(|_| Err(stopped("its task was stopped")))
    };
    let running = std::mem::replace(&mut state.running, Box::pin(received));
    let already = state.ended.is_some();
    let to_signal = descriptor.clone();
    runtime()?.spawn(async move {
        // One that was found to have ended may not be polled again.
        if !already {
            // The operation may have been freed.
            let _ = send.send(running.await);
        }
        // It can only fail where 2^64 are stored in it.
        let _ = rustix::io::write(&*to_signal, &1_u64.to_ne_bytes());
    });
    Ok(descriptor)
}
