//! Calls that are served by their connection's own task.
//!
//! Most calls are brief: they look something up, wait once, for a disk or a sync, and answer. A
//! task for each of them has other threads woken that find one call's worth of work, and one write
//! to the stream for each answer. In one task, what has arrived is begun, what has become possible
//! is done, and what is to be said is written together, without a hand-over.
//!
//! A call that turns out to be long goes on in a task of its own: because it says so
//! ([`Reply::long`](super::Reply::long)), or because it waited too often. So do those beyond what
//! one task is to serve, and all when the connection ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;

use super::wire::Flow;

/// Times that a call may wait before it has a task of its own.
const WAITS: u8 = 8;
/// Calls that one task serves; with more there is enough to do for other threads.
const MOST: usize = 32;

/// The calls of one connection that are young.
#[derive(Default)]
pub(super) struct YoungCalls(FuturesUnordered<Young>);

struct Young {
    /// Until it is done or has a task of its own.
    call: Option<BoxFuture<'static, ()>>,
    flow: Arc<Flow>,
    waits: u8,
}

impl YoungCalls {
    /// Begins a call at the next [`YoungCalls::next`].
    pub(super) fn begin(&self, call: BoxFuture<'static, ()>, flow: Arc<Flow>) {
        if self.0.len() >= MOST {
            tokio::spawn(call);
            return;
        }
        self.0.push(Young {
            call: Some(call),
            flow,
            waits: 0,
        });
    }

    /// Goes on with all until one is done or leaves; for ever if there is none.
    ///
    /// # Cancellation
    /// Safe: the calls stay.
    pub(super) async fn next(&mut self) {
        if self.0.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl Future for Young {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(mut call) = self.call.take() else {
            return Poll::Ready(());
        };
        // As in a task of its own: a call that panics answers by being dropped, and the others do
        // not hear of it.
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
        if !matches!(polled, Ok(Poll::Pending)) {
            return Poll::Ready(());
        }
        self.waits += 1;
        if self.waits >= WAITS || self.flow.is_long() {
            tokio::spawn(call);
            return Poll::Ready(());
        }
        self.call = Some(call);
        Poll::Pending
    }
}

impl Drop for YoungCalls {
    fn drop(&mut self) {
        // In a runtime that ends, calls end, too.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        for young in std::mem::take(&mut self.0) {
            if let Some(call) = young.call {
                runtime.spawn(call);
            }
        }
    }
}
