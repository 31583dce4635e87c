//! What the kernel is told unasked: that something it has cached is no longer true.
//!
//! From a thread of its own: the kernel may have to wait until a page that is being read is there,
//! and whoever reads pages for it must not be the one that waits.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use tokio::sync::oneshot;
use zerocopy::IntoBytes;

use super::abi::{
    InvalEntryOut, InvalInodeOut, MINOR_EPOCH, NOTIFY_INC_EPOCH, NOTIFY_INVAL_ENTRY,
    NOTIFY_INVAL_INODE,
};
use super::attribute_requests::AttributeRequests;
use super::device::Device;
use super::flags::Current;
use super::init::Negotiated;
use crate::fs::{AccessTimes, Holder};

/// Names that wait to be told; instead of more of them the kernel is told, where it understands
/// that, that none is true.
const NAMES: usize = 4096;
/// Notices that are told again.
const AGAIN: usize = 4096;
/// How often, and how far apart, the kernel is told of a file that it does not know yet: the answer
/// that tells it of the file may be on its way.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Notice {
    Attributes(u64),
    Data(u64),
    Name(u64, Vec<u8>),
    Epoch,
}

/// What the thread does.
#[derive(Debug)]
enum Task {
    Tell(Notice),
    /// Everything before it was told.
    Say(oneshot::Sender<()>),
}

/// What waits for the thread. Nobody waits for room in it: whoever adds may be the one that the
/// kernel waits for. Each notice waits once, so that files are no more than the kernel knows.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    tasks: VecDeque<Task>,
    known: HashSet<Notice>,
    names: usize,
    ended: bool,
}

impl Waiting {
    fn add(&mut self, notice: Notice, epochs: bool) {
        if !self.known.insert(notice.clone()) {
            return;
        }
        if !matches!(notice, Notice::Name(..)) {
            return self.tasks.push_back(Task::Tell(notice));
        }
        if self.names < NAMES || !epochs {
            self.names += 1;
            return self.tasks.push_back(Task::Tell(notice));
        }
        let is_name = |notice: &Notice| matches!(notice, Notice::Name(..));
        self.known.retain(|notice| !is_name(notice));
        let stays = |task: &Task| !matches!(task, Task::Tell(notice) if is_name(notice));
        self.tasks.retain(stays);
        self.names = 0;
        self.tasks.push_front(Task::Tell(Notice::Epoch));
    }

    fn take(&mut self) -> Option<Task> {
        let task = self.tasks.pop_front()?;
        if let Task::Tell(notice) = &task {
            // What changes from here on is told again.
            self.known.remove(notice);
            self.names -= usize::from(matches!(notice, Notice::Name(..)));
        }
        Some(task)
    }
}

impl Queue {
    fn add(&self, notice: Notice, epochs: bool) {
        self.waiting.lock().add(notice, epochs);
        self.more.notify_one();
    }

    /// The next task; `None` when none came in time, or none will: then it is true.
    fn next(&self, patience: Option<Duration>) -> (Option<Task>, bool) {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(task) = waiting.take() {
                return (Some(task), false);
            }
            if waiting.ended {
                return (None, true);
            }
            match patience {
                None => self.more.wait(&mut waiting),
                Some(patience) => {
                    if self.more.wait_for(&mut waiting, patience).timed_out() {
                        return (waiting.take(), false);
                    }
                }
            }
        }
    }
}

/// Tells the kernel.
pub(super) struct Notices {
    device: Arc<Device>,
    queue: Arc<Queue>,
    epochs: bool,
    maps_past_pages: bool,
    current: Current,
}

impl Notices {
    /// Starts the thread, which ends when this is dropped.
    pub(super) fn start(
        device: Arc<Device>,
        with: &Negotiated,
        current: Current,
        requests: Arc<AttributeRequests>,
    ) -> std::io::Result<Notices> {
        let queue = Arc::<Queue>::default();
        let (to, notices) = (device.clone(), queue.clone());
        std::thread::Builder::new()
            .name("weft-notices".into())
            .spawn(move || run_on(&to, &notices, &requests))?;
        Ok(Notices {
            device,
            queue,
            epochs: with.minor >= MINOR_EPOCH,
            maps_past_pages: with.maps_past_pages(),
            current,
        })
    }

    fn send(&self, notice: Notice) {
        self.queue.add(notice, self.epochs);
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.queue.waiting.lock().ended = true;
        self.queue.more.notify_one();
    }
}

impl Holder for Notices {
    fn file_changed(&self, id: u64, data: bool) {
        if data {
            self.send(Notice::Data(id));
        } else {
            // Waits for nothing, and whoever opens a file must not be told before the kernel is.
            let _ = tell(&self.device, &Notice::Attributes(id));
        }
    }

    fn pages_gone(&self, id: u64, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let end = i64::try_from(range.end).unwrap_or(i64::MAX);
        let off = i64::try_from(range.start).unwrap_or(i64::MAX);
        let out = InvalInodeOut {
            ino: id,
            off,
            // Of a length that is not positive the kernel takes all that follows.
            len: if end == i64::MAX { 0 } else { end - off },
        };
        invalidate(&self.device, &out);
    }

    fn name_changed(&self, directory: u64, name: &[u8]) {
        self.send(Notice::Name(directory, name.to_vec()));
    }

    fn names_changed(&self) {
        if self.epochs {
            // Waits for nothing.
            let _ = tell(&self.device, &Notice::Epoch);
        }
    }

    fn all_told(&self) -> oneshot::Receiver<()> {
        let (say, heard) = oneshot::channel();
        self.queue.waiting.lock().tasks.push_back(Task::Say(say));
        self.queue.more.notify_one();
        heard
    }

    fn takes_all_names_back(&self) -> bool {
        self.epochs
    }

    fn maps_past_pages(&self) -> bool {
        self.maps_past_pages
    }

    fn access_times(&self) -> AccessTimes {
        self.current.flags().access_times()
    }
}

/// Whatever panics, the thread goes on: answers wait until everything before them was told.
fn run_on(device: &Device, queue: &Queue, requests: &AttributeRequests) {
    while catch_unwind(AssertUnwindSafe(|| run(device, queue, requests))).is_err() {}
}

fn run(device: &Device, queue: &Queue, requests: &AttributeRequests) {
    let mut again = Vec::new();
    loop {
        let patience = (!again.is_empty()).then_some(BETWEEN_TRIES);
        match queue.next(patience) {
            (Some(Task::Say(say)), _) => {
                let _ = say.send(());
            }
            (Some(Task::Tell(notice)), _) => {
                if let Notice::Data(file) = notice {
                    requests.wait_for_replies(file);
                }
                if tell(device, &notice).is_err() && again.len() < AGAIN {
                    again.push((notice, TRIES));
                }
            }
            (None, false) => again.retain_mut(|(notice, tries)| {
                *tries -= 1;
                tell(device, notice).is_err() && *tries > 0
            }),
            (None, true) => return,
        }
    }
}

/// The kernel does not know the file.
struct Unknown;

/// Waits for pages that are being read or written.
fn invalidate(device: &Device, out: &InvalInodeOut) {
    match device.notify(NOTIFY_INVAL_INODE, &[out.as_bytes()]) {
        // It had nothing cached, or the mount has ended.
        Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::NOTCONN) => {}
        Err(error) => tracing::warn!(%error, "the kernel did not drop pages"),
    }
}

fn tell(device: &Device, notice: &Notice) -> Result<(), Unknown> {
    let inode = |ino, off| InvalInodeOut { ino, off, len: 0 };
    let told = match notice {
        Notice::Attributes(id) => device.notify(NOTIFY_INVAL_INODE, &[inode(*id, -1).as_bytes()]),
        Notice::Data(id) => device.notify(NOTIFY_INVAL_INODE, &[inode(*id, 0).as_bytes()]),
        Notice::Name(parent, name) => {
            let out = InvalEntryOut {
                parent: *parent,
                namelen: name.len() as u32,
                flags: 0,
            };
            device.notify(NOTIFY_INVAL_ENTRY, &[out.as_bytes(), name, &[0]])
        }
        Notice::Epoch => device.notify(NOTIFY_INC_EPOCH, &[]),
    };
    match (told, notice) {
        (Err(Errno::NOENT), Notice::Data(_)) => return Err(Unknown),
        // It had nothing cached, or the mount has ended.
        (Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::NOTCONN), _) => {}
        (Err(error), _) => tracing::debug!(%error, "the kernel did not take a notice"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(waiting: &mut Waiting) -> Vec<Notice> {
        let tasks = std::iter::from_fn(|| waiting.take());
        let told = tasks.filter_map(|task| match task {
            Task::Tell(notice) => Some(notice),
            Task::Say(_) => None,
        });
        told.collect()
    }

    #[test]
    fn a_notice_waits_once_and_is_told_again_for_what_comes_later() {
        let mut waiting = Waiting::default();
        for id in [7, 8, 7, 7] {
            waiting.add(Notice::Data(id), true);
        }
        assert_eq!(all(&mut waiting), [Notice::Data(7), Notice::Data(8)]);
        waiting.add(Notice::Data(7), true);
        assert_eq!(all(&mut waiting), [Notice::Data(7)]);
    }

    #[test]
    fn more_names_than_are_kept_are_told_as_all() {
        let mut waiting = Waiting::default();
        waiting.add(Notice::Data(1), true);
        for name in 0..NAMES as u64 + 2 {
            waiting.add(Notice::Name(1, name.to_le_bytes().to_vec()), true);
        }
        let last = Notice::Name(1, (NAMES as u64 + 1).to_le_bytes().to_vec());
        assert_eq!(all(&mut waiting), [Notice::Epoch, Notice::Data(1), last]);
    }
}
