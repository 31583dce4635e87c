//! Calls that are served in the task of their connection.
//!
//! Most calls are brief: they look something up, wait once, for a disk or a sync, and answer. With
//! a task for each of them, other threads wake up for one call's worth of work, and each answer is
//! written to the stream by itself. In one task, calls that have arrived begin, calls that can
//! continue do so, and their answers are written together, without a switch of threads.
//!
//! A call that turns out to be long moves to a task of its own: because it says so
//! ([`Reply::long`](super::Reply::long)), or because it has waited too often. So do calls beyond
//! what one task should serve, and all calls when the connection ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;

use super::reply_flow::ReplyFlow;
use crate::limits::{BRIEF_CALLS_MAX, BRIEF_WAITS_MAX};

/// The calls that are served in the task of one connection.
#[derive(Default)]
pub(super) struct BriefCalls(FuturesUnordered<BriefCall>);

struct BriefCall {
    /// `None` once it is done or has a task of its own.
    call: Option<BoxFuture<'static, ()>>,
    flow: Arc<ReplyFlow>,
    waits: u8,
}

impl BriefCalls {
    /// Begins a call at the next [`BriefCalls::next`].
    pub(super) fn begin(&self, call: BoxFuture<'static, ()>, flow: Arc<ReplyFlow>) {
        if self.0.len() >= BRIEF_CALLS_MAX {
            tokio::spawn(call);
            return;
        }
        self.0.push(BriefCall {
            call: Some(call),
            flow,
            waits: 0,
        });
    }

    /// Drives all calls until one is done or moves to a task of its own; for ever if there is none.
    ///
    /// # Cancellation
    /// Safe: the calls stay.
    pub(super) async fn next(&mut self) {
        if self.0.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl Future for BriefCall {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(mut call) = self.call.take() else {
            return Poll::Ready(());
        };
        // As in a task of its own: a call that panics answers by being dropped, and other calls are
        // not affected.
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
        if !matches!(polled, Ok(Poll::Pending)) {
            return Poll::Ready(());
        }
        self.waits += 1;
        if self.waits >= BRIEF_WAITS_MAX || self.flow.is_long() {
            tokio::spawn(call);
            return Poll::Ready(());
        }
        self.call = Some(call);
        Poll::Pending
    }
}

impl Drop for BriefCalls {
    fn drop(&mut self) {
        // When the runtime ends, calls end, too.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        for brief in std::mem::take(&mut self.0) {
            if let Some(call) = brief.call {
                runtime.spawn(call);
            }
        }
    }
}
