//! An attached file: attach, close, size, sync, locks, and names in delegated directories.
//!
//! Owns the [`Attachment`]: what was written through it, and which losses its program knows of.
//!
//! Invariant: an attachment ends once, with its last clone or by a call, and the service is told.

mod append;
mod attach;
mod chosen;
mod close;
mod commit;
mod data_ranges;
mod delayed;
mod delegated_names;
mod detach;
mod forks;
mod history;
mod inline;
mod locks;
mod policy;
mod recorded;
mod sync;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rustix::io::Errno;
use weft_layout::{CellIndex, Layout, ServerId};
use weft_proto::meta::{AttachReply, Target, TruncateRequest};
use weft_proto::prost::Message;
use weft_proto::stamp::Stamp;
use weft_proto::{Call, Code, Retry as RetryClass};

use self::chosen::Pending;
use self::delayed::Delayed;
use self::recorded::Recorded;
use crate::cache::OwnNames;
use crate::limits::OPERATION_TRIES;
use crate::names::{Cells, size_of};
use crate::policy::Policy;
use crate::scheduled::PostedOrder;
use crate::turn::Turn;
use crate::volume::Repeat;
use crate::{Attributes, Error, Volume};

pub(crate) use chosen::Chosen;
pub use close::Closed;
pub use data_ranges::DataRanges;
pub(crate) use delayed::Waiting;
pub use inline::Store;
pub use locks::{HeldLock, LockKind, LockOwner, LockRange, Locked};

/// Length and time of a fork.
pub use weft_proto::io::ForkState as Fork;

/// An attached file. Cheap to clone; clones share the attachment.
///
/// Dropping the last clone of a file that was written without [`File::close`] leaves its size to be
/// asked of the servers until another attachment is closed.
#[derive(Clone)]
pub struct File(pub(crate) Arc<Attachment>);

pub(crate) struct Attachment {
    pub(crate) volume: Volume,
    pub(crate) path: String,
    pub(crate) layout: Layout,
    pub(crate) id: u64,
    /// What the servers are asked for: of a file in a checkpoint another than `id`.
    pub(crate) cells: Cells,
    reply: AttachReply,
    /// Small files that were attached with it.
    ahead: parking_lot::Mutex<Vec<File>>,
    /// All bytes, while they lie with the metadata.
    pub(crate) inline: Mutex<Option<Bytes>>,
    write: bool,
    /// This process attached it, so this process detaches it.
    owner: bool,
    detached: AtomicBool,
    /// Time of the last write through this attachment; `i64::MIN`: none.
    written: AtomicI64,
    /// One past the last canonical byte written through this attachment, or [`END_UNKNOWN`]:
    /// something was written through a view whose end in canonical order was not worked out, or by
    /// another process.
    end: AtomicU64,
    /// Other forks than `data` were written or removed through this attachment.
    forks: AtomicBool,
    /// Losses of acknowledged bytes that its program knows of.
    reported_losses: AtomicU64,
    /// Its operations are atomic and happen in one order.
    cautious: AtomicBool,
    policy: parking_lot::Mutex<Option<Arc<Chosen>>>,
    /// What callbacks of the policy have asked for.
    pending: Pending,
    delayed: Delayed,
    recorded: Option<Recorded>,
    /// It was asked for, or is forced, whatever the policy.
    always_cautious: bool,
    /// Names of chunks that only this attachment believes.
    pub(crate) own_names: OwnNames,
    /// Where the last write that may have named chunks ended in its view; at first beyond all.
    named_to: AtomicU64,
    pub(crate) posted: PostedOrder,
}

/// How an attachment was asked for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked {
    cautious: bool,
    policy: Option<Policy>,
}

impl Asked {
    /// In the five lowest bits.
    fn on_the_wire(self) -> u8 {
        let place = |policy| Policy::all().position(|p| p == policy);
        let policy = self
            .policy
            .and_then(place)
            .map_or(0, |place| place as u8 + 1);
        u8::from(self.cautious) | policy << 1
    }

    pub(crate) fn from_the_wire(bits: u8) -> Asked {
        let place = usize::from(bits >> 1 & 0xf).checked_sub(1);
        Asked {
            cautious: bits & 1 != 0,
            policy: place.and_then(|place| Policy::all().nth(place)),
        }
    }
}

/// In place of an end: no file ends there.
const END_UNKNOWN: u64 = u64::MAX;

impl File {
    pub(crate) fn new(
        volume: Volume,
        path: String,
        layout: Layout,
        mut reply: AttachReply,
        write: bool,
        owner: bool,
        asked: Asked,
    ) -> File {
        let inline = Mutex::new(reply.inline.take());
        let reply_shared = reply.shared;
        let recorded = volume.shared.history.as_ref().map(Recorded::new);
        let reported = volume.shared.unsynced.baseline(reply.attributes.id);
        File(Arc::new(Attachment {
            volume,
            path,
            layout,
            id: reply.attributes.id,
            cells: Cells::of(&reply.attributes),
            reply,
            ahead: parking_lot::Mutex::default(),
            inline,
            write,
            owner,
            detached: AtomicBool::new(false),
            written: AtomicI64::new(i64::MIN),
            end: AtomicU64::new(0),
            forks: AtomicBool::new(false),
            reported_losses: AtomicU64::new(reported),
            cautious: AtomicBool::new(asked.cautious || reply_shared),
            policy: parking_lot::Mutex::default(),
            pending: Pending::default(),
            delayed: Delayed::default(),
            recorded,
            always_cautious: asked.cautious || reply_shared,
            own_names: OwnNames::default(),
            named_to: AtomicU64::new(u64::MAX),
            posted: PostedOrder::default(),
        }))
    }

    /// The file's id.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The volume that it was attached from.
    pub fn volume(&self) -> &Volume {
        &self.0.volume
    }

    /// The path it was attached by.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The file's layout.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// Attributes as of the attach.
    pub fn attributes(&self) -> &Attributes {
        &self.0.reply.attributes
    }

    /// Whether it is attached for writing.
    pub fn writable(&self) -> bool {
        self.0.write
    }

    /// Whether its operations are cautious: see [`Access::cautious`](crate::Access::cautious).
    ///
    /// They also become so when another application has the file open, and one of the two writes
    /// it.
    pub fn is_cautious(&self) -> bool {
        self.0.cautious.load(Ordering::Acquire)
    }

    fn asked(&self) -> Asked {
        Asked {
            cautious: self.is_cautious(),
            policy: self.policy(),
        }
    }

    /// A server has refused a reckless operation.
    pub(crate) fn become_cautious(&self) {
        if !self.0.cautious.swap(true, Ordering::AcqRel) {
            tracing::info!(path = %self.0.path, "operations are cautious from now on: another application uses the file");
        }
    }

    /// Whether a reckless operation failed because it must be cautious: from now on all are.
    pub(crate) fn becomes_cautious(&self, error: &Error) -> bool {
        let forced = error.code() == Code::Cautious;
        if forced {
            self.become_cautious();
        }
        forced
    }

    /// Whether this attach created the file.
    pub fn created(&self) -> bool {
        self.0.reply.created
    }

    /// Whether no other client had it open for writing when it was attached for writing, and its
    /// size was exact until then.
    pub fn sole(&self) -> bool {
        self.0.reply.sole
    }

    /// Whether it is small and leased to this client: see
    /// [`Access::keep_small`](crate::Access::keep_small).
    pub fn is_kept(&self) -> bool {
        self.0.reply.kept.is_some()
    }

    /// The small files that were attached together with it; once. Each is kept, and an attachment
    /// of its own.
    pub fn take_ahead(&self) -> Vec<File> {
        std::mem::take(&mut *self.0.ahead.lock())
    }

    /// Refuses what only an attachment for writing may do.
    pub(crate) fn needs_write(&self, doing: &str) -> Result<(), Error> {
        if self.0.write {
            return Ok(());
        }
        Err(Error::Refused {
            what: format!("{doing} {}", self.0.path),
            code: Code::Invalid,
            errno: Errno::BADF.raw_os_error(),
            retry: RetryClass::Never,
            message: "it is attached for reading only".to_owned(),
        })
    }

    /// What another process needs to [`Volume::adopt`] this attachment without a request of its
    /// own.
    pub fn hand_over(&self) -> Vec<u8> {
        let asked = self.asked();
        let mut out = vec![u8::from(self.0.write) | asked.on_the_wire() << 1];
        let mut reply = AttachReply {
            inline: self.inline_data(),
            kept: None,
            ..self.0.reply.clone()
        };
        if let Some(plugin) = self.policy().filter(|policy| policy.is_plugin()) {
            // The other process finds it by its name, as if the file said so.
            plugin.name().clone_into(&mut reply.attributes.policy);
        }
        out.extend(reply.encode_to_vec());
        out
    }

    /// Attributes now. One request, and one to each server while the size is not exact.
    pub async fn stat(&self) -> Result<Attributes, Error> {
        self.commit().await?;
        let a = &self.0;
        let what = format!("stat {}", a.path);
        let target = Target {
            at: a.id,
            ..Target::default()
        };
        let request = weft_proto::meta::StatRequest {
            who: (*a.volume.who).clone(),
            target,
        };
        let reply = a.volume.meta(&what, &request, Repeat::Safe).await?;
        a.volume.exact(&what, reply.attributes).await
    }

    /// The file's size now, asked of its servers: one request to each; of an inline file one
    /// request to the service. Where a server is in doubt of how much it had, it is at least what
    /// the service knows, asked for by one more request.
    pub async fn size(&self) -> Result<u64, Error> {
        self.commit().await?;
        let a = &self.0;
        if self.inline_data().is_some() {
            return Ok(self.stat().await?.size);
        }
        let what = format!("size of {}", a.path);
        let states = a
            .volume
            .fork_states(&what, a.cells, &a.layout, "data")
            .await?;
        let size = size_of(&a.layout, &states.forks);
        if states.doubted {
            return Ok(size.max(self.stat().await?.size));
        }
        Ok(size)
    }

    /// Sets the file's size in canonical order; the metadata service carries it through to the
    /// servers.
    ///
    /// # Durability
    /// Survives power loss.
    pub async fn truncate(&self, size: u64) -> Result<(), Error> {
        let what = format!("truncate {} to {size} bytes", self.0.path);
        let noting = self.begin_change(|| self.truncated(size));
        let resized = self.resize(&what, size, false).await;
        noting.end(resized.is_ok());
        resized.map(drop)
    }

    /// Has the service set the size, or raise it (`grow`); the attributes afterwards.
    pub(crate) async fn resize(
        &self,
        what: &str,
        size: u64,
        grow: bool,
    ) -> Result<Attributes, Error> {
        self.commit().await?;
        let a = &self.0;
        let _turn = self.claim_whole(what).await?;
        a.own_names.clear();
        let request = TruncateRequest {
            who: (*a.volume.who).clone(),
            target: Target {
                at: a.id,
                ..Target::default()
            },
            size,
            attached: a.write,
            grow,
        };
        let asked = a.volume.set_here();
        let reply = a.volume.meta(what, &request, Repeat::Safe).await;
        a.own_names.clear();
        let reply = reply?;
        self.truncate_inline(&reply.attributes);
        a.volume.refresh_delegated(&reply.attributes, asked);
        Ok(reply.attributes)
    }

    /// Of a cautious file, claims all of it until the result is dropped.
    async fn claim_whole(&self, what: &str) -> Result<Option<Turn>, Error> {
        let a = &self.0;
        if !self.is_cautious() || self.inline_data().is_some() {
            return Ok(None);
        }
        for _ in 0..OPERATION_TRIES {
            let turn = Turn::begin(&a.volume, a.layout.servers_in_use().to_vec(), false);
            match turn.claim_in_turn(a.id).await {
                Ok(true) => return Ok(Some(turn)),
                Ok(false) => {}
                Err(error) if a.volume.may_retry(&error, Repeat::Safe).await => {}
                Err(error) => return Err(Error::of_call(what, error)),
            }
        }
        let what = what.to_owned();
        let message = "other operations on the file are in the way".to_owned();
        Err(Error::Refused {
            what,
            code: Code::Busy,
            errno: Code::Busy.errno(),
            retry: RetryClass::Later,
            message,
        })
    }

    /// One call without payload that changes something of the file on a server.
    pub(crate) async fn change<C: Call>(
        &self,
        what: &str,
        server: ServerId,
        request: &C,
        repeat: Repeat,
    ) -> Result<C::Reply, Error> {
        let a = &self.0;
        let (reply, stamp) = a.volume.io_stamped(what, server, request, repeat).await?;
        a.volume.shared.unsynced.note(a.id, server, &stamp);
        Ok(reply)
    }

    /// A server has acknowledged bytes.
    pub(crate) fn note_acknowledged(&self, server: ServerId, stamp: &Stamp) {
        self.0.volume.shared.unsynced.note(self.0.id, server, stamp);
    }

    pub(crate) fn server_of(&self, cell: CellIndex) -> Result<ServerId, Error> {
        let cells = self.0.layout.cells();
        if cell.0 >= cells {
            return Err(weft_layout::MapError::NoSuchCell { cell, cells }.into());
        }
        Ok(self.0.layout.server_of(cell))
    }

    /// Notes that bytes were written just now by a process that this attachment was handed over to,
    /// so that [`File::close`] reports size and time. What this process writes itself is noted by
    /// itself.
    pub fn note_written(&self) {
        self.note_write(None);
    }

    /// Notes that bytes up to canonical offset `end` were written at `time` (nanoseconds since the
    /// epoch) for this attachment through another one of this process, so that [`File::close`]
    /// reports size and time. `None`: how far they reach the servers know.
    pub fn note_written_to(&self, end: Option<u64>, time: i64) {
        self.0.own_names.clear();
        self.note_write_at(end, time);
    }

    /// Notes that forks of this name were written or removed, so that the service asks how long
    /// they are.
    pub(crate) fn note_fork(&self, fork: &str) {
        if fork != "data" {
            self.0.forks.store(true, Ordering::Release);
        }
    }

    /// Notes a write through this attachment; `end` is one past its last canonical byte, where that
    /// is known.
    pub(crate) fn note_write(&self, end: Option<u64>) {
        self.0.own_names.clear();
        self.note_write_at(end, self.0.volume.shared.env.clock.now());
    }

    /// Whether a write that ends there in its view does not go on where the last one ended.
    pub(crate) fn begins_anew(&self, end: u64) -> bool {
        end <= self.0.named_to.swap(end, Ordering::Relaxed)
    }

    /// Forgets the names that the attachment believes by its policy: another attachment of the same
    /// program has changed the file.
    pub fn forget_own_names(&self) {
        self.0.own_names.clear();
    }

    /// As [`File::note_write`], after the chunks of the write were taken out of the names that the
    /// attachment keeps. `time`: when it was; `None`: now.
    pub(crate) fn note_forgotten_write(&self, end: Option<u64>, time: Option<i64>) {
        let now = || self.0.volume.shared.env.clock.now();
        self.note_write_at(end, time.unwrap_or_else(now));
    }

    /// How far the file is known to reach at least: as it was when it was attached, and by what was
    /// written through this attachment since.
    pub(crate) fn known_end(&self) -> u64 {
        let written = self.0.end.load(Ordering::Acquire);
        let written = Some(written).filter(|end| *end != END_UNKNOWN);
        self.attributes().size.max(written.unwrap_or(0))
    }

    /// Whether the file reaches no further than [`File::known_end`], as far as this client knows.
    pub(crate) fn knows_end(&self) -> bool {
        self.attributes().size_exact && self.0.end.load(Ordering::Acquire) != END_UNKNOWN
    }

    fn note_write_at(&self, end: Option<u64>, time: i64) {
        self.0.written.fetch_max(time, Ordering::AcqRel);
        self.0
            .end
            .fetch_max(end.unwrap_or(END_UNKNOWN), Ordering::AcqRel);
    }
}

impl Attachment {
    /// The attachment ended with another call than [`File::close`].
    pub(crate) fn note_closed(&self) {
        if self.owner && !self.detached.swap(true, Ordering::AcqRel) {
            self.volume.shared.note_detached(self.id, self.write);
        }
    }
}
