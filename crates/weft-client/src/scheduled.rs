//! The order of posted cautious operations: each begins when the one before it on the same
//! attachment is scheduled on all of its servers.

use parking_lot::Mutex;
use std::cell::Cell;
use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::task_local;

task_local! {
    /// Tells the next operation that the current one is scheduled.
    static SCHEDULED: Cell<Option<Sender<()>>>;
}

/// The posted operations of an attachment.
#[derive(Default)]
pub(crate) struct PostedOrder(Mutex<Option<Receiver<()>>>);

/// The place of a posted operation.
pub(crate) struct Posted {
    previous: Option<Receiver<()>>,
    scheduled: Sender<()>,
}

impl PostedOrder {
    /// The next place.
    pub(crate) fn next(&self) -> Posted {
        let (scheduled, following) = channel();
        let mut last = self.0.lock();
        Posted {
            previous: last.replace(following),
            scheduled,
        }
    }
}

impl Posted {
    /// Runs an operation in its place.
    pub(crate) async fn run<T>(self, work: impl Future<Output = T>) -> T {
        if let Some(previous) = self.previous {
            // An error: it has ended.
            let _ = previous.await;
        }
        SCHEDULED.scope(Cell::new(Some(self.scheduled)), work).await
    }
}

/// The current operation is scheduled on all of its servers. Nothing, unless it was posted.
pub(crate) fn note_scheduled() {
    let tell = |next: &Cell<Option<Sender<()>>>| {
        if let Some(next) = next.take() {
            let _ = next.send(());
        }
    };
    let _ = SCHEDULED.try_with(tell);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn an_operation_begins_when_the_one_before_is_scheduled_or_has_ended() {
        let order = PostedOrder::default();
        let events = Arc::new(Mutex::new(Vec::new()));
        let go_on = Arc::new(Notify::new());
        let (first, second, third) = (order.next(), order.next(), order.next());
        let note = |event: &'static str| events.lock().push(event);
        let first = first.run(async {
            note("first begins");
            go_on.notified().await;
            note("first is scheduled");
            note_scheduled();
            go_on.notified().await;
            note("first ends");
        });
        let second = second.run(async { note("second") });
        let third = third.run(async {
            note("third");
            go_on.notify_one();
        });
        let start = async { go_on.notify_one() };
        tokio::join!(third, second, first, start);
        let expected = [
            "first begins",
            "first is scheduled",
            "second",
            "third",
            "first ends",
        ];
        assert_eq!(*events.lock(), expected);
    }
}
