//! Notifications to the kernel: what it must drop from its caches.
//!
//! A separate thread sends them, because the kernel may wait until a page has been read, and a
//! thread that reads pages for it must not wait in turn.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use tokio::sync::oneshot;
use zerocopy::IntoBytes;

use super::attribute_requests::AttributeRequests;
use super::handshake::Negotiated;
use crate::fs::{AccessTimes, FileCopies, UpperCache};
use crate::fuse::device::Device;
use crate::fuse::device::abi::{
    InvalEntryOut, InvalInodeOut, MINOR_EPOCH, NOTIFY_INC_EPOCH, NOTIFY_INVAL_ENTRY,
    NOTIFY_INVAL_INODE,
};
use crate::fuse::mount::LiveFlags;
use crate::limits::{
    NOTIFICATION_RETRIES, NOTIFICATION_RETRY_INTERVAL, QUEUED_NAMES_MAX, RETRIED_NOTIFICATIONS_MAX,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Notification {
    Attributes(u64),
    Data(u64),
    Name(u64, Vec<u8>),
    /// All names of all directories.
    Epoch,
}

/// A task of the thread.
#[derive(Debug)]
enum Task {
    Send(Notification),
    /// Every earlier task is done.
    Confirm(oneshot::Sender<()>),
}

/// The thread's queue. It is not bounded, because the thread that adds may be the one that the
/// kernel waits for; each notification is queued once, so files are no more than the kernel knows.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    tasks: VecDeque<Task>,
    queued: HashSet<Notification>,
    names: usize,
    ended: bool,
}

impl Waiting {
    fn add(&mut self, notification: Notification, epochs: bool) {
        if !self.queued.insert(notification.clone()) {
            return;
        }
        if !matches!(notification, Notification::Name(..)) {
            return self.tasks.push_back(Task::Send(notification));
        }
        if self.names < QUEUED_NAMES_MAX || !epochs {
            self.names += 1;
            return self.tasks.push_back(Task::Send(notification));
        }
        let is_name = |queued: &Notification| matches!(queued, Notification::Name(..));
        self.queued.retain(|queued| !is_name(queued));
        self.tasks
            .retain(|task| !matches!(task, Task::Send(queued) if is_name(queued)));
        self.names = 0;
        self.tasks.push_front(Task::Send(Notification::Epoch));
    }

    fn take(&mut self) -> Option<Task> {
        let task = self.tasks.pop_front()?;
        if let Task::Send(notification) = &task {
            // A later change is sent again.
            self.queued.remove(notification);
            self.names -= usize::from(matches!(notification, Notification::Name(..)));
        }
        Some(task)
    }
}

/// What the queue has for its thread.
enum Next {
    Task(Task),
    /// No task came in time.
    TimedOut,
    /// No task will come any more.
    Ended,
}

impl Queue {
    fn add(&self, notification: Notification, epochs: bool) {
        self.waiting.lock().add(notification, epochs);
        self.more.notify_one();
    }

    fn next(&self, timeout: Option<Duration>) -> Next {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(task) = waiting.take() {
                return Next::Task(task);
            }
            if waiting.ended {
                return Next::Ended;
            }
            match timeout {
                None => self.more.wait(&mut waiting),
                Some(timeout) => {
                    if self.more.wait_for(&mut waiting, timeout).timed_out() {
                        return waiting.take().map_or(Next::TimedOut, Next::Task);
                    }
                }
            }
        }
    }
}

/// The kernel's caches, as the file system sees them.
pub(super) struct KernelCache {
    device: Arc<Device>,
    queue: Arc<Queue>,
    epochs: bool,
    maps_past_pages: bool,
    flags: LiveFlags,
}

impl KernelCache {
    /// Starts the thread, which ends when this is dropped.
    pub(super) fn start(
        device: Arc<Device>,
        negotiated: &Negotiated,
        flags: LiveFlags,
        requests: Arc<AttributeRequests>,
    ) -> std::io::Result<KernelCache> {
        let queue = Arc::<Queue>::default();
        let (to, tasks) = (device.clone(), queue.clone());
        std::thread::Builder::new()
            .name("weft-notices".into())
            .spawn(move || run_on(&to, &tasks, &requests))?;
        Ok(KernelCache {
            device,
            queue,
            epochs: negotiated.minor >= MINOR_EPOCH,
            maps_past_pages: negotiated.maps_past_pages(),
            flags,
        })
    }

    fn enqueue(&self, notification: Notification) {
        self.queue.add(notification, self.epochs);
    }
}

impl Drop for KernelCache {
    fn drop(&mut self) {
        self.queue.waiting.lock().ended = true;
        self.queue.more.notify_one();
    }
}

impl UpperCache for KernelCache {
    fn invalidate_file(&self, id: u64, copies: FileCopies) {
        match copies {
            FileCopies::AttributesAndData => self.enqueue(Notification::Data(id)),
            FileCopies::Attributes => {
                // Waits for nothing, and the kernel must know before an open is answered.
                let _ = send(&self.device, &Notification::Attributes(id));
            }
        }
    }

    fn drop_pages(&self, id: u64, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let end = i64::try_from(range.end).unwrap_or(i64::MAX);
        let off = i64::try_from(range.start).unwrap_or(i64::MAX);
        let out = InvalInodeOut {
            ino: id,
            off,
            // With a length of 0 the kernel drops everything from the offset on.
            len: if end == i64::MAX { 0 } else { end - off },
        };
        invalidate(&self.device, &out);
    }

    fn invalidate_name(&self, directory: u64, name: &[u8]) {
        self.enqueue(Notification::Name(directory, name.to_vec()));
    }

    fn invalidate_all_names(&self) {
        if self.epochs {
            // Waits for nothing.
            let _ = send(&self.device, &Notification::Epoch);
        }
    }

    fn invalidations_sent(&self) -> oneshot::Receiver<()> {
        let (sender, sent) = oneshot::channel();
        let confirm = Task::Confirm(sender);
        self.queue.waiting.lock().tasks.push_back(confirm);
        self.queue.more.notify_one();
        sent
    }

    fn can_invalidate_all_names(&self) -> bool {
        self.epochs
    }

    fn maps_past_pages(&self) -> bool {
        self.maps_past_pages
    }

    fn access_times(&self) -> AccessTimes {
        self.flags.get().access_times()
    }
}

/// Restarts the loop after a panic: acknowledgements wait until every earlier task is done.
fn run_on(device: &Device, queue: &Queue, requests: &AttributeRequests) {
    while catch_unwind(AssertUnwindSafe(|| run(device, queue, requests))).is_err() {}
}

fn run(device: &Device, queue: &Queue, requests: &AttributeRequests) {
    let mut retried = Vec::new();
    loop {
        let timeout = (!retried.is_empty()).then_some(NOTIFICATION_RETRY_INTERVAL);
        match queue.next(timeout) {
            Next::Task(Task::Confirm(sent)) => {
                let _ = sent.send(());
            }
            Next::Task(Task::Send(notification)) => {
                if let Notification::Data(file) = notification {
                    requests.wait_for_replies(file);
                }
                if send(device, &notification).is_err() && retried.len() < RETRIED_NOTIFICATIONS_MAX
                {
                    retried.push((notification, NOTIFICATION_RETRIES));
                }
            }
            Next::TimedOut => retried.retain_mut(|(notification, retries)| {
                *retries -= 1;
                send(device, notification).is_err() && *retries > 0
            }),
            Next::Ended => return,
        }
    }
}

/// The kernel does not know the file.
struct Unknown;

/// Waits for pages that are being read or written.
fn invalidate(device: &Device, out: &InvalInodeOut) {
    match device.notify(NOTIFY_INVAL_INODE, &[out.as_bytes()]) {
        // The kernel had nothing cached, or the mount has ended.
        Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::NOTCONN) => {}
        Err(error) => tracing::warn!(%error, "the kernel did not drop pages"),
    }
}

fn send(device: &Device, notification: &Notification) -> Result<(), Unknown> {
    let inode = |ino, off| InvalInodeOut { ino, off, len: 0 };
    let sent = match notification {
        Notification::Attributes(id) => {
            device.notify(NOTIFY_INVAL_INODE, &[inode(*id, -1).as_bytes()])
        }
        Notification::Data(id) => device.notify(NOTIFY_INVAL_INODE, &[inode(*id, 0).as_bytes()]),
        Notification::Name(parent, name) => {
            let out = InvalEntryOut {
                parent: *parent,
                namelen: name.len() as u32,
                flags: 0,
            };
            device.notify(NOTIFY_INVAL_ENTRY, &[out.as_bytes(), name, &[0]])
        }
        Notification::Epoch => device.notify(NOTIFY_INC_EPOCH, &[]),
    };
    match (sent, notification) {
        (Err(Errno::NOENT), Notification::Data(_)) => return Err(Unknown),
        // The kernel had nothing cached, or the mount has ended.
        (Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::NOTCONN), _) => {}
        (Err(error), _) => tracing::debug!(%error, "the kernel rejected a notification"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(waiting: &mut Waiting) -> Vec<Notification> {
        let tasks = std::iter::from_fn(|| waiting.take());
        let sent = tasks.filter_map(|task| match task {
            Task::Send(notification) => Some(notification),
            Task::Confirm(_) => None,
        });
        sent.collect()
    }

    #[test]
    fn a_notification_is_queued_once_and_again_after_it_was_sent() {
        let mut waiting = Waiting::default();
        for id in [7, 8, 7, 7] {
            waiting.add(Notification::Data(id), true);
        }
        assert_eq!(
            all(&mut waiting),
            [Notification::Data(7), Notification::Data(8)]
        );
        waiting.add(Notification::Data(7), true);
        assert_eq!(all(&mut waiting), [Notification::Data(7)]);
    }

    #[test]
    fn more_names_than_the_queue_holds_become_one_notification_for_all() {
        let mut waiting = Waiting::default();
        waiting.add(Notification::Data(1), true);
        for name in 0..QUEUED_NAMES_MAX as u64 + 2 {
            waiting.add(Notification::Name(1, name.to_le_bytes().to_vec()), true);
        }
        let last = Notification::Name(1, (QUEUED_NAMES_MAX as u64 + 1).to_le_bytes().to_vec());
        assert_eq!(
            all(&mut waiting),
            [Notification::Epoch, Notification::Data(1), last]
        );
    }
}
