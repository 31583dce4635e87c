//! What the kernel is told unasked: that something it has cached is no longer true.
//!
//! From a thread of its own: the kernel may have to wait until a page that is being read is there, and whoever reads
//! pages for it must not be the one that waits.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::oneshot;
use zerocopy::IntoBytes;

use super::abi::{
    InvalEntryOut, InvalInodeOut, MINOR_EPOCH, NOTIFY_INC_EPOCH, NOTIFY_INVAL_ENTRY,
    NOTIFY_INVAL_INODE,
};
use super::device::Device;
use crate::fs::Holder;

/// Notices under way; whoever adds to more of them waits for the kernel in its own thread.
const QUEUE: usize = 4096;
/// How often, and how far apart, the kernel is told of a file that it does not know yet: the answer that tells it of
/// the file may be on its way.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

enum Notice {
    Attributes(u64),
    Data(u64),
    Name(u64, Vec<u8>),
    Epoch,
}

/// What the thread does.
enum Task {
    Tell(Notice),
    /// Everything before it was told.
    Say(oneshot::Sender<()>),
}

/// Tells the kernel.
pub(super) struct Notices {
    device: Arc<Device>,
    queue: SyncSender<Task>,
    epochs: bool,
}

impl Notices {
    /// Starts the thread, which ends with the last sender. The kernel speaks this minor version.
    pub(super) fn start(device: Arc<Device>, minor: u32) -> std::io::Result<Notices> {
        let (queue, notices) = sync_channel(QUEUE);
        let to = device.clone();
        std::thread::Builder::new()
            .name("weft-notices".into())
            .spawn(move || run(&to, &notices))?;
        let epochs = minor >= MINOR_EPOCH;
        Ok(Notices {
            device,
            queue,
            epochs,
        })
    }

    fn send(&self, notice: Notice) {
        let sent = self.queue.try_send(Task::Tell(notice));
        if let Err(TrySendError::Full(Task::Tell(notice))) = sent {
            let _ = tell(&self.device, &notice);
        }
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

    fn file_gone(&self, id: u64) {
        let _ = tell(&self.device, &Notice::Data(id));
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
        // A full queue drops it, and whoever listens hears that.
        let _ = self.queue.try_send(Task::Say(say));
        heard
    }

    fn takes_all_names_back(&self) -> bool {
        self.epochs
    }
}

fn run(device: &Device, notices: &Receiver<Task>) {
    let mut again = Vec::new();
    loop {
        let notice = if again.is_empty() {
            notices.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            notices.recv_timeout(BETWEEN_TRIES)
        };
        match notice {
            Ok(Task::Say(say)) => {
                let _ = say.send(());
            }
            Ok(Task::Tell(notice)) => {
                if tell(device, &notice).is_err() && again.len() < QUEUE {
                    again.push((notice, TRIES));
                }
            }
            Err(RecvTimeoutError::Timeout) => again.retain_mut(|(notice, tries)| {
                *tries -= 1;
                tell(device, notice).is_err() && *tries > 0
            }),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The kernel does not know the file.
struct Unknown;

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
