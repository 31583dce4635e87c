//! Operations in the background: posted now, looked at and waited for later.
//!
//! An [`Operation`] is a call that goes on by itself, on the runtime that the volume was connected
//! on: the caller may be a task, a thread without any runtime, or foreign code. Its outcome, errors
//! included, is returned by the wait. Reads, writes and syncs of views have `post_…` calls;
//! [`Volume::post`] takes any call.
//!
//! Invariants:
//! 1. The view's pointer moves when the operation is posted, so operations that are posted one
//!    after the other concern bytes that follow one another, in whatever order they end.
//! 2. Operations in flight are in no order: a read posted after a write of the same bytes may see
//!    them or not, and a sync covers the writes that had ended when it was posted. A caller that
//!    wants an order waits in between. Those of one cautious attachment happen in the order in
//!    which they were posted; a sync among them waits until the one before is scheduled.
//! 3. Any number may be posted; those that the connection's flow control does not let through yet
//!    have sent nothing and hold the caller's bytes only.
//!
//! Deliberately absent: a queue of completions with its own thread; `wait_any` over what the caller
//! holds does the same without one.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use weft_layout::ViewOffset;
use weft_net::Counters;

use crate::{Collected, Collective, Error, File, OpenView, Transfer, Volume};

/// What an operation brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome<M = Vec<u8>> {
    /// Bytes moved, as [`OpenView::read_at`] and [`OpenView::write_at`] count them; 0 of a sync.
    pub bytes: u64,
    /// The memory of a read; empty otherwise.
    pub buffer: M,
}

/// A call under way; see the `post_…` calls of [`OpenView`] and [`Collective`], and
/// [`Volume::post`].
///
/// # Cancellation
/// Dropped before it has ended, it is cancelled: servers stop, and what waits for its turn is never
/// sent. A cancelled read has changed nothing. Of a cancelled write any part may have been written,
/// as if a server had been lost; the file counts as written. A cancelled sync promises nothing.
#[must_use = "an operation that is dropped is cancelled"]
pub struct Operation<T = Outcome> {
    task: JoinHandle<Result<T, Error>>,
    runtime: Handle,
    counters: Arc<Counters>,
    what: String,
    /// The file that it writes.
    writes: Option<File>,
    /// It has ended and was not waited for.
    ended: Option<Result<T, Error>>,
}

impl Volume {
    /// Posts any call: attach, create, stat, a list request, … It owns what it works on; handles
    /// are cheap to clone.
    ///
    /// ```no_run
    /// # async fn example(volume: weft_client::Volume) -> Result<(), weft_client::Error> {
    /// use weft_client::Access;
    ///
    /// let (one, two) = (volume.clone(), volume.clone());
    /// let grid = volume.post("attach", async move { one.attach("/grid", Access::read()).await });
    /// let mesh = volume.post("attach", async move { two.attach("/mesh", Access::read()).await });
    /// let (grid, mesh) = (grid.wait().await?, mesh.wait().await?);
    /// # Ok(()) }
    /// ```
    ///
    /// `what` is for the error when the runtime is shut down meanwhile. Never waits and never
    /// fails: errors are returned by the wait.
    pub fn post<T: Send + 'static>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Operation<T> {
        Operation::begin(self, what.to_owned(), None, call)
    }
}

impl OpenView {
    /// Posts a read of `length` bytes at the view's pointer, which moves on by as many at once. The
    /// outcome's buffer is as long, zeros where no bytes were moved to.
    ///
    /// Never waits and never fails: errors are returned by the wait.
    pub fn post_read(&self, length: usize) -> Operation {
        self.post_read_into(vec![0; length])
    }

    /// As [`OpenView::post_read`], into memory of the caller's of any kind, which keeps what no
    /// bytes were moved to.
    pub fn post_read_into<M: AsMut<[u8]> + Send + 'static>(
        &self,
        mut buffer: M,
    ) -> Operation<Outcome<M>> {
        let at = self.advance(buffer.as_mut().len() as u64);
        self.post_read_at(at, buffer)
    }

    /// Posts a read at `offset`; the view's pointer stays where it is.
    pub fn post_read_at<M: AsMut<[u8]> + Send + 'static>(
        &self,
        offset: ViewOffset,
        mut buffer: M,
    ) -> Operation<Outcome<M>> {
        let view = self.another();
        self.post("read of", None, async move {
            let bytes = view.read_at(offset, buffer.as_mut()).await?;
            Ok(Outcome { bytes, buffer })
        })
    }

    /// Posts a write at the view's pointer, which moves on by the data's length at once.
    ///
    /// Never waits and never fails: errors are returned by the wait.
    /// # Durability
    /// When it has ended, as of [`OpenView::write_at`].
    pub fn post_write(&self, data: Bytes) -> Operation {
        let at = self.advance(data.len() as u64);
        self.post_write_at(at, data)
    }

    /// Posts a write at `offset`; the view's pointer stays where it is.
    pub fn post_write_at(&self, offset: ViewOffset, data: Bytes) -> Operation {
        let view = self.another();
        self.post("write of", Some(self.file.clone()), async move {
            let bytes = view.write_at(offset, data).await?;
            Ok(Outcome {
                bytes,
                ..Outcome::default()
            })
        })
    }

    /// Posts [`OpenView::read_with`]: a transfer of any pattern. The outcome's buffer is the one
    /// given, which keeps what no bytes were moved to.
    pub fn post_read_with<M: AsMut<[u8]> + Send + 'static>(
        &self,
        transfer: Transfer,
        mut buffer: M,
    ) -> Operation<Outcome<M>> {
        let view = self.another();
        self.post("read of", None, async move {
            let bytes = view.read_with(&transfer, buffer.as_mut()).await?;
            Ok(Outcome { bytes, buffer })
        })
    }

    /// Posts [`OpenView::write_with`]: a transfer of any pattern.
    /// # Durability
    /// When it has ended, as the transfer says.
    pub fn post_write_with(&self, transfer: Transfer, data: Bytes) -> Operation {
        let view = self.another();
        self.post("write of", Some(self.file.clone()), async move {
            let bytes = view.write_with(&transfer, data).await?;
            Ok(Outcome {
                bytes,
                ..Outcome::default()
            })
        })
    }

    /// Posts a sync of the file: when it has ended, everything written before it was posted
    /// survives power loss.
    pub fn post_sync(&self) -> Operation {
        let file = self.file.clone();
        self.post("sync of", None, async move {
            file.sync().await?;
            Ok(Outcome::default())
        })
    }

    fn post<M: Send + 'static>(
        &self,
        doing: &str,
        writes: Option<File>,
        work: impl Future<Output = Result<Outcome<M>, Error>> + Send + 'static,
    ) -> Operation<Outcome<M>> {
        let (volume, what) = (&self.file.0.volume, self.what(doing));
        if !self.file.is_cautious() {
            return Operation::begin(volume, what, writes, work);
        }
        let posted = self.file.0.posted.next();
        Operation::begin(volume, what, writes, posted.run(work))
    }
}

impl Collective<'_> {
    /// Posts this member's part of a collective read; the buffer comes back with what was read.
    pub fn post_read<M: AsMut<[u8]> + Send + 'static>(
        &self,
        transfer: Transfer,
        mut buffer: M,
    ) -> Operation<(Collected, M)> {
        let (view, group) = (self.view.another(), self.group.taken());
        self.post("collective read of", None, async move {
            let collective = view.collective(&group);
            let collected = collective.read(&transfer, buffer.as_mut()).await?;
            Ok((collected, buffer))
        })
    }

    /// Posts this member's part of a collective write.
    pub fn post_write(&self, transfer: Transfer, data: Bytes) -> Operation<Collected> {
        let (view, group) = (self.view.another(), self.group.taken());
        let writes = Some(self.view.file.clone());
        self.post("collective write of", writes, async move {
            view.collective(&group).write(&transfer, data).await
        })
    }

    fn post<T: Send + 'static>(
        &self,
        doing: &str,
        writes: Option<File>,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Operation<T> {
        let volume = &self.view.file.0.volume;
        Operation::begin(volume, self.view.what(doing), writes, work)
    }
}

impl<T: Send + 'static> Operation<T> {
    fn begin(
        volume: &Volume,
        what: String,
        writes: Option<File>,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Operation<T> {
        let runtime = volume.shared.runtime.clone();
        Operation {
            task: runtime.spawn(work),
            runtime,
            counters: volume.shared.counters().clone(),
            what,
            writes,
            ended: None,
        }
    }
}

impl<T> Operation<T> {
    /// Whether it has ended; never waits. What came of it is told by [`Operation::wait`], at once
    /// then.
    pub fn poll(&self) -> bool {
        self.ended.is_some() || self.task.is_finished()
    }

    /// Waits until it has ended. Needs no runtime of the caller's: any executor will do.
    ///
    /// # Errors
    /// Those of the call that was posted; [`Error::Protocol`] when the volume's runtime was shut
    /// down.
    /// # Cancellation
    /// Dropped, the operation is cancelled.
    pub async fn wait(mut self) -> Result<T, Error> {
        poll_fn(|context| self.poll_ended(context)).await;
        self.ended
            .take()
            .expect("what came of an operation is taken by the wait alone")
    }

    /// Cancels it, and waits until no server works on it any more: what is written after that
    /// stays. Dropping it does not wait, so a server may still finish a part of it later. Any part
    /// of a cancelled write may have been written.
    ///
    /// A server whose connection is lost meanwhile is not waited for.
    pub async fn cancel(mut self) {
        self.task.abort();
        let running = poll_fn(|context| self.poll_ended(context));
        running.await;
        if let Some(file) = &self.writes {
            file.note_written();
        }
        self.counters.abandoned_calls_ended().await;
    }

    /// As [`Operation::wait`], for a thread that may block.
    ///
    /// The volume's runtime must have threads of its own: one that only turns inside its `block_on`
    /// would not go on.
    /// # Panics
    /// Inside a runtime's task, where blocking would hold up other tasks.
    pub fn wait_blocking(self) -> Result<T, Error> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.wait())
    }

    /// Keeps what came of it, once it has ended.
    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.ended.is_none() {
            let Poll::Ready(ended) = Pin::new(&mut self.task).poll(context) else {
                return Poll::Pending;
            };
            self.ended = Some(flatten(ended, &self.what));
        }
        Poll::Ready(())
    }
}

impl<T> Drop for Operation<T> {
    fn drop(&mut self) {
        // A task that was aborted has not finished yet, whatever it did; one that was waited for
        // has.
        if !self.task.is_finished() {
            self.task.abort();
            // Whatever part of it was written, closing the file must find out where the file ends
            // now.
            if let Some(file) = &self.writes {
                file.note_written();
            }
        }
    }
}

/// Waits until one of these has ended and says which; of several the first. `None` if there are
/// none.
///
/// Take it out and wait for it, or the next call finds it again:
///
/// ```no_run
/// # async fn example(mut operations: Vec<weft_client::Operation>) -> Result<(), weft_client::Error> {
/// while let Some(i) = weft_client::wait_any(&mut operations).await {
///     let outcome = operations.swap_remove(i).wait().await?;
///     println!("{} bytes", outcome.bytes);
/// }
/// # Ok(()) }
/// ```
/// # Cancellation
/// Dropped, nothing is lost: the operations go on.
pub async fn wait_any<T>(operations: &mut [Operation<T>]) -> Option<usize> {
    if operations.is_empty() {
        return None;
    }
    let ended = poll_fn(|context| {
        let mut ends = operations.iter_mut().map(|o| o.poll_ended(context));
        ends.position(|end| end.is_ready())
            .map_or(Poll::Pending, Poll::Ready)
    });
    Some(ended.await)
}

/// Waits until all of these have ended; what came of each, in their order. One that fails stops
/// none of the others.
///
/// # Cancellation
/// Dropped, those that have not ended are cancelled.
pub async fn wait_all<T>(
    operations: impl IntoIterator<Item = Operation<T>>,
) -> Vec<Result<T, Error>> {
    let mut outcomes = Vec::new();
    // Collected first, so that dropping this cancels all of them.
    for operation in operations.into_iter().collect::<Vec<_>>() {
        outcomes.push(operation.wait().await);
    }
    outcomes
}

fn flatten<T>(
    ended: Result<Result<T, Error>, tokio::task::JoinError>,
    what: &str,
) -> Result<T, Error> {
    match ended {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Error::Protocol {
            what: what.to_owned(),
            reason: "the runtime that the volume was connected on was shut down; what was under way may have happened"
                .to_owned(),
        }),
    }
}
