//! Shared offset pointers: several processes read or write a view one after another, each where the
//! last one ended.
//!
//! ```no_run
//! # async fn example(view: weft_client::OpenView) -> Result<(), weft_client::Error> {
//! // In any number of processes, on any machines: each record of 4 KiB goes to one of them.
//! let records = view.shared_pointer("records")?; // no message
//! let mut record = vec![0; 4096];
//! while records.read(&mut record).await? == 4096 {
//!     // Work on it.
//! }
//! # Ok(()) }
//! ```
//!
//! See `docs/design/0031-order.md`.

use bytes::Bytes;
use tokio::sync::Mutex;
use weft_layout::{ServerId, ViewOffset};
use weft_proto::collective::Membership;
use weft_proto::limits::POINTER_NAME_MAX;
use weft_proto::pointer::{PointerName, PointerReply, PointerRequest, TakeOffsetRequest};

use crate::volume::Repeat;
use crate::{Error, Group, OpenView};

/// A view with an offset pointer that processes share. It names the pointer's next byte of the
/// view: processes with different views of the file share the number, not the bytes.
///
/// The pointer is kept by one of the file's servers, chosen by file and name, from its first use
/// until [`SharedPointer::remove`] or the end of the file. The view's own calls, such as
/// [`OpenView::read_at`], do not touch it.
///
/// # Source
/// Vesta §4.3.
pub struct SharedPointer {
    view: OpenView,
    name: PointerName,
    server: ServerId,
    taker: u64,
    last: Mutex<LastTake>,
}

/// The last take that was asked for.
#[derive(Default)]
struct LastTake {
    sequence: u64,
    /// Its bytes, if no answer has arrived: a repetition has the same number.
    unanswered: Option<u64>,
}

/// A shared pointer, for takes of a group in the order of its members.
#[derive(Clone, Copy)]
pub struct OrderedPointer<'a> {
    pointer: &'a SharedPointer,
    group: &'a Group,
}

impl OpenView {
    /// This view with the shared pointer of this name, 1 to 64 bytes without NUL and `/`. Local: no
    /// message.
    ///
    /// # Errors
    /// [`Error::Configuration`] for another name.
    pub fn shared_pointer(self, name: &str) -> Result<SharedPointer, Error> {
        if !(1..=POINTER_NAME_MAX).contains(&name.len()) || name.contains(['\0', '/']) {
            return Err(Error::Configuration(format!(
                "a pointer's name has 1 to {POINTER_NAME_MAX} bytes without NUL and '/'; {name:?} has {}",
                name.len()
            )));
        }
        let a = &self.file.0;
        let servers = a.layout.servers_in_use();
        let chosen = weft_sum::of(&[&a.id.to_le_bytes(), name.as_bytes()].concat());
        Ok(SharedPointer {
            server: servers[chosen as usize % servers.len()],
            name: PointerName {
                file: a.id,
                name: name.to_owned(),
            },
            // 0 stands for no taker.
            taker: a.volume.shared.env.random_u64() | 1,
            last: Mutex::default(),
            view: self,
        })
    }
}

impl SharedPointer {
    /// The view.
    pub fn view(&self) -> &OpenView {
        &self.view
    }

    /// Takes the next `bytes` bytes: no other take of any process gets one of them. One request.
    ///
    /// A take that failed for lack of an answer is not lost: the next one of the same size gets it.
    ///
    /// # Durability
    /// On return the take survives the death of the server's process;
    /// [`File::sync`](crate::File::sync) makes it survive power loss.
    /// # Errors
    /// [`Error::Refused`] with `TooLarge` beyond the largest offset, and with `Stale` for a file
    /// that was deleted.
    /// # Cancellation
    /// Dropped, the bytes may be taken; as above.
    pub async fn take(&self, bytes: u64) -> Result<ViewOffset, Error> {
        self.take_as(bytes, None).await
    }

    /// Reads the next `buffer.len()` bytes; returns how many there were, 0 at the end of the view.
    /// The pointer moves past all of them. One request for the pointer, then those of
    /// [`OpenView::read_at`].
    pub async fn read(&self, buffer: &mut [u8]) -> Result<u64, Error> {
        let offset = self.take(buffer.len() as u64).await?;
        self.view.read_at(offset, buffer).await
    }

    /// Writes the next `data.len()` bytes; returns how many were written. One request for the
    /// pointer, then those of [`OpenView::write_at`].
    ///
    /// # Durability
    /// As [`OpenView::write_at`].
    pub async fn write(&self, data: Bytes) -> Result<u64, Error> {
        let offset = self.take(data.len() as u64).await?;
        self.view.write_at(offset, data).await
    }

    /// This pointer for takes in the order of the group's members. Local: no message.
    pub fn ordered<'a>(&'a self, group: &'a Group) -> OrderedPointer<'a> {
        OrderedPointer {
            pointer: self,
            group,
        }
    }

    /// The next byte that a take gets. One request.
    pub async fn position(&self) -> Result<ViewOffset, Error> {
        let what = self.view.what("ask for a shared pointer of");
        self.call(&what, None, false).await
    }

    /// Moves the pointer: the next take begins at `offset`. One request.
    pub async fn seek(&self, offset: ViewOffset) -> Result<(), Error> {
        let what = self.view.what("move a shared pointer of");
        self.call(&what, Some(offset.0), false).await.map(drop)
    }

    /// Removes the pointer: the next take, by any process, begins at 0. One request.
    pub async fn remove(&self) -> Result<(), Error> {
        let what = self.view.what("remove a shared pointer of");
        self.call(&what, None, true).await.map(drop)
    }

    async fn call(&self, what: &str, set: Option<u64>, remove: bool) -> Result<ViewOffset, Error> {
        let request = PointerRequest {
            pointer: self.name.clone(),
            set,
            remove,
        };
        let volume = &self.view.file.0.volume;
        let reply = volume.io(what, self.server, &request, Repeat::Safe).await;
        reply.map(|PointerReply { offset }| ViewOffset(offset))
    }

    async fn take_as(&self, bytes: u64, group: Option<Membership>) -> Result<ViewOffset, Error> {
        // One at a time: the server keeps the last answer only.
        let mut last = self.last.lock().await;
        if last.unanswered != Some(bytes) {
            last.sequence += 1;
            last.unanswered = Some(bytes);
        }
        let request = TakeOffsetRequest {
            pointer: self.name.clone(),
            taker: self.taker,
            sequence: last.sequence,
            bytes,
            group,
        };
        let what = self.view.what("take from a shared pointer of");
        let volume = &self.view.file.0.volume;
        let reply = volume
            .io(&what, self.server, &request, Repeat::Safe)
            .await?;
        last.unanswered = None;
        Ok(ViewOffset(reply.offset))
    }
}

impl OrderedPointer<'_> {
    /// As [`SharedPointer::take`], when all members of the group have called it: each gets the
    /// bytes after those of the member before it. Sizes may differ. It is the group's next
    /// collective.
    ///
    /// # Errors
    /// [`Error::Refused`] with `MembersMissing`, which names them, if members do not come in the
    /// group's time: then nothing was taken. With [`Missing::GoOn`](crate::Missing::GoOn) the
    /// others take without them.
    pub async fn take(self, bytes: u64) -> Result<ViewOffset, Error> {
        let nonce = self.pointer.view.file.0.volume.shared.env.random_u64();
        let membership = self.group.join(nonce);
        self.pointer.take_as(bytes, Some(membership)).await
    }

    /// As [`SharedPointer::read`], in the order of the members.
    pub async fn read(self, buffer: &mut [u8]) -> Result<u64, Error> {
        let offset = self.take(buffer.len() as u64).await?;
        self.pointer.view.read_at(offset, buffer).await
    }

    /// As [`SharedPointer::write`], in the order of the members.
    pub async fn write(self, data: Bytes) -> Result<u64, Error> {
        let offset = self.take(data.len() as u64).await?;
        self.pointer.view.write_at(offset, data).await
    }
}
