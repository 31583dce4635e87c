//! What the kernel is told unasked: that something it has cached is no longer true.
//!
//! From a thread of its own: the kernel may have to wait until a page that is being read is there, and whoever reads
//! pages for it must not be the one that waits.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::abi::{InvalEntryOut, InvalInodeOut, NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE};
use super::device::Device;
use crate::fs::Holder;

/// Notices under way; whoever adds to more of them waits for the kernel in its own thread.
const QUEUE: usize = 4096;

enum Notice {
    Attributes(u64),
    Data(u64),
    Name(u64, Vec<u8>),
}

/// Tells the kernel.
pub(super) struct Notices {
    device: Arc<Device>,
    queue: SyncSender<Notice>,
}

impl Notices {
    /// Starts the thread, which ends with the last sender.
    pub(super) fn start(device: Arc<Device>) -> std::io::Result<Notices> {
        let (queue, notices) = sync_channel(QUEUE);
        let to = device.clone();
        std::thread::Builder::new()
            .name("weft-notices".into())
            .spawn(move || run(&to, &notices))?;
        Ok(Notices { device, queue })
    }

    fn send(&self, notice: Notice) {
        match self.queue.try_send(notice) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(notice)) => tell(&self.device, &notice),
        }
    }
}

impl Holder for Notices {
    fn file_changed(&self, id: u64, data: bool) {
        if data {
            self.send(Notice::Data(id));
        } else {
            // Waits for nothing, and whoever opens a file must not be told before the kernel is.
            tell(&self.device, &Notice::Attributes(id));
        }
    }

    fn file_gone(&self, id: u64) {
        tell(&self.device, &Notice::Data(id));
    }

    fn name_changed(&self, directory: u64, name: &[u8]) {
        self.send(Notice::Name(directory, name.to_vec()));
    }
}

fn run(device: &Device, notices: &Receiver<Notice>) {
    while let Ok(notice) = notices.recv() {
        tell(device, &notice);
    }
}

fn tell(device: &Device, notice: &Notice) {
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
    };
    match told {
        // It had nothing cached, or the mount has ended.
        Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::NOTCONN) => {}
        Err(error) => tracing::debug!(%error, "the kernel did not take a notice"),
    }
}
