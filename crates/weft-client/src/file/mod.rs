//! An attached file: attach, close, size, sync, locks, and names changed ahead of the service.
//!
//! Owns the attachment: what was written through it, and which losses its program was told of.
//!
//! Invariant: an attachment ends once, with its last clone or by a call, and the service is told.

mod append;
mod attach;
mod data_ranges;
mod detach;
mod inline;
mod locks;
mod names_ahead;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use weft_layout::{CellIndex, Layout, ServerId};
use weft_net::CallError;
use weft_proto::io::{CreateForkRequest, ForkPlace, RemoveForkRequest, SyncRequest};
use weft_proto::meta::{AttachReply, ReportReply, ReportRequest, Target, TruncateRequest};
use weft_proto::prost::Message;
use weft_proto::stamp::Stamp;
use weft_proto::{Call, Code};

use crate::names::{Cells, ForkStates, size_of};
use crate::session::on;
use crate::volume::{Ending, Repeat};
use crate::{Attributes, Error, Volume};

pub use data_ranges::DataRanges;
pub use inline::Store;
pub use locks::{HeldLock, LockKind, LockOwner, LockRange, Locked};

/// Length and time of a fork.
pub use weft_proto::io::ForkState as Fork;

/// An attached file. Cheap to clone; clones share the attachment.
///
/// Dropping the last clone of a file that was written without [`File::close`] leaves its size to be
/// asked of the servers until somebody closes it.
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
    /// All bytes, while they lie with the metadata.
    pub(crate) inline: Mutex<Option<Bytes>>,
    write: bool,
    /// This process attached it, so this process detaches it.
    own: bool,
    detached: AtomicBool,
    /// Time of the last write through this attachment; `i64::MIN`: none.
    written: AtomicI64,
    /// One past the last canonical byte written through this attachment, or [`END_UNKNOWN`]:
    /// something was written through a view whose end in canonical order was not worked out, or by
    /// another process.
    end: AtomicU64,
    /// Other forks than `data` were written or removed through this attachment.
    forks: AtomicBool,
    /// Losses of acknowledged bytes that its program was told of.
    told: AtomicU64,
}

/// What the service knows of a file whose last writer has closed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    /// Its attributes; the size is exact.
    pub attributes: Attributes,
    /// Nobody else has written it while it was attached.
    pub alone: bool,
}

/// In place of an end: no file ends there.
const END_UNKNOWN: u64 = u64::MAX;
/// How often a close asks for a size that somebody else has changed meanwhile.
const SIZE_TRIES: u32 = 3;

impl File {
    pub(crate) fn new(
        volume: Volume,
        path: String,
        layout: Layout,
        mut reply: AttachReply,
        write: bool,
        own: bool,
    ) -> File {
        let inline = Mutex::new(reply.inline.take());
        let told = volume.shared.unsynced.baseline(reply.attributes.id);
        File(Arc::new(Attachment {
            volume,
            path,
            layout,
            id: reply.attributes.id,
            cells: Cells::of(&reply.attributes),
            reply,
            inline,
            write,
            own,
            detached: AtomicBool::new(false),
            written: AtomicI64::new(i64::MIN),
            end: AtomicU64::new(0),
            forks: AtomicBool::new(false),
            told: AtomicU64::new(told),
        }))
    }

    /// The file's id.
    pub fn id(&self) -> u64 {
        self.0.id
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

    /// Whether this attach created the file.
    pub fn created(&self) -> bool {
        self.0.reply.created
    }

    /// Whether nobody else had it open for writing when it was attached for writing, and its size
    /// was exact until then.
    pub fn sole(&self) -> bool {
        self.0.reply.sole
    }

    /// Refuses what only an attachment for writing may do.
    pub(crate) fn needs_write(&self, doing: &str) -> Result<(), Error> {
        if self.0.write {
            return Ok(());
        }
        let what = format!("{doing} {}", self.0.path);
        Err(Error::invalid(what, "it is attached for reading only"))
    }

    /// What another process needs to [`Volume::adopt`] this attachment without a request of its
    /// own.
    pub fn hand_over(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.0.write)];
        let reply = AttachReply {
            inline: self.inline_data(),
            ..self.0.reply.clone()
        };
        out.extend(reply.encode_to_vec());
        out
    }

    /// Attributes now. One request, and one to each server while the size is not exact.
    pub async fn stat(&self) -> Result<Attributes, Error> {
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
        let a = &self.0;
        if self.inline_data().is_some() {
            return Ok(self.stat().await?.size);
        }
        let what = format!("size of {}", a.path);
        let states = a
            .volume
            .fork_states(&what, a.cells, &a.layout, "data")
            .await?;
        let told = size_of(&a.layout, &states.forks);
        if states.doubted {
            return Ok(self.stat().await?.size.max(told));
        }
        Ok(told)
    }

    /// Every fork of every cell: one request to each server.
    pub async fn forks(&self) -> Result<Vec<Fork>, Error> {
        let a = &self.0;
        let what = format!("list the forks of {}", a.path);
        let states = a.volume.fork_states(&what, a.cells, &a.layout, "");
        Ok(states.await?.forks)
    }

    /// Creates an empty fork in a cell; it is no error if it is there.
    pub async fn create_fork(&self, cell: CellIndex, fork: &str) -> Result<(), Error> {
        self.needs_write("create a fork of")?;
        self.needs_cells()?;
        let a = &self.0;
        let request = CreateForkRequest {
            file: a.id,
            place: ForkPlace {
                cell: cell.0,
                fork: fork.to_owned(),
            },
            chunk: a.layout.chunk(),
            accept_loss: false,
            checkpoint: None,
        };
        let what = format!("create fork {fork} in cell {cell} of {}", a.path);
        let server = self.server_of(cell)?;
        self.change(&what, server, &request, Repeat::Safe)
            .await
            .map(drop)
    }

    /// Removes a fork of a cell with its bytes.
    pub async fn remove_fork(&self, cell: CellIndex, fork: &str) -> Result<(), Error> {
        self.needs_write("remove a fork of")?;
        self.needs_cells()?;
        let a = &self.0;
        let request = RemoveForkRequest {
            file: a.id,
            place: ForkPlace {
                cell: cell.0,
                fork: fork.to_owned(),
            },
            seen: None,
        };
        self.note_fork(fork);
        let what = format!("remove fork {fork} of cell {cell} of {}", a.path);
        let server = self.server_of(cell)?;
        self.change(&what, server, &request, Repeat::Safe)
            .await
            .map(drop)
    }

    /// Sets the file's size in canonical order; the metadata service carries it through to the
    /// servers.
    ///
    /// # Durability
    /// Survives power loss.
    pub async fn truncate(&self, size: u64) -> Result<(), Error> {
        let what = format!("truncate {} to {size} bytes", self.0.path);
        self.resize(&what, size, false).await?;
        Ok(())
    }

    /// Has the service set the size, or raise it (`grow`); the attributes afterwards.
    pub(crate) async fn resize(
        &self,
        what: &str,
        size: u64,
        grow: bool,
    ) -> Result<Attributes, Error> {
        let a = &self.0;
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
        let reply = a.volume.meta(what, &request, Repeat::Safe).await?;
        self.cut_inline(&reply.attributes);
        Ok(reply.attributes)
    }

    /// Makes everything written so far, by anybody, survive power loss: one request to each server;
    /// of an inline file one to the service.
    ///
    /// # Errors
    /// With [`Code::Lost`], once for each attachment of the file, when a server came back without
    /// something that this client had been told was written.
    pub async fn sync(&self) -> Result<(), Error> {
        let a = &self.0;
        if self.inline_data().is_some() {
            return a.volume.sync_namespace().await;
        }
        let what = format!("sync {}", a.path);
        let servers = a.layout.servers_in_use();
        let synced = self.ask_for_written(&what, servers, false).await;
        self.losses()?;
        synced
    }

    /// Whether something that was written through any attachment of this client is known to be
    /// lost, and this attachment has not told it yet. Local.
    ///
    /// # Errors
    /// With [`Code::Lost`]; the next call does not tell it again.
    pub fn losses(&self) -> Result<(), Error> {
        let a = &self.0;
        let untold = a.volume.shared.unsynced.untold(a.id, &a.told);
        untold.map_or(Ok(()), |message| Err(Error::lost(&a.path, message)))
    }

    /// Asks servers whether they have what this client wrote, and, unless `check_only`, to make it
    /// survive power loss. Repeated when a connection is lost: what the server lost meanwhile it
    /// says.
    async fn ask_for_written(
        &self,
        what: &str,
        servers: &[ServerId],
        check_only: bool,
    ) -> Result<(), Error> {
        let a = &self.0;
        let unsynced = &a.volume.shared.unsynced;
        let asked = unsynced.of_file(a.id);
        let asks = servers.iter().map(|server| {
            let request = SyncRequest {
                file: a.cells.file,
                written: on(&asked, *server),
                check_only,
            };
            async move {
                let told = a.volume.io(what, *server, &request, Repeat::Safe).await;
                (*server, told)
            }
        });
        let mut failed = None;
        for (server, told) in join_all(asks).await {
            match told {
                Ok(_) if check_only => {}
                Ok(_) => unsynced.synced(&asked, server),
                Err(error) if error.code() == Code::Lost => {
                    unsynced.lost(a.id, &asked, server, &error.to_string());
                }
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Finds out whether servers that began another incarnation since have lost what this client
    /// wrote. A server that cannot be reached is not waited for: no promise was made for it.
    async fn look_for_losses(&self) {
        let a = &self.0;
        let mut doubtful = Vec::new();
        for ((server, incarnation), _) in a.volume.shared.unsynced.of_file(a.id) {
            let same = match a.volume.server_connection(server).await {
                Ok(connection) => connection.incarnation() == incarnation,
                Err(_) => true,
            };
            if !same && !doubtful.contains(&server) {
                doubtful.push(server);
            }
        }
        if !doubtful.is_empty() {
            let what = format!("close {}", a.path);
            let asked = self.ask_for_written(&what, &doubtful, true).await;
            if let Err(error) = asked {
                tracing::debug!(%error, "whether written bytes were lost is not known");
            }
        }
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

    /// Ends the attachment and tells the metadata service what was written: one request. If the
    /// size does not follow from what this attachment wrote (others wrote, too, or through a view),
    /// the servers are asked: one request to each, and one more to the service.
    pub async fn close(&self) -> Result<(), Error> {
        self.end().await.map(drop)
    }

    /// As [`File::close`], but where there is nothing to tell no request of its own: the service
    /// hears of it together with other ends, some milliseconds later. Tells what the service knows
    /// of a file that was written.
    pub async fn let_go(&self) -> Result<Option<Closed>, Error> {
        let a = &self.0;
        let changed =
            a.written.load(Ordering::Acquire) != i64::MIN || a.forks.load(Ordering::Acquire);
        if !a.own || changed {
            return self.end().await;
        }
        if !a.detached.swap(true, Ordering::AcqRel) && !a.volume.shared.ahead.close(a.id) {
            a.volume.detach_later(a.id, a.write);
        }
        Ok(None)
    }

    async fn end(&self) -> Result<Option<Closed>, Error> {
        let a = &self.0;
        if !a.own || a.detached.swap(true, Ordering::AcqRel) || a.volume.shared.ahead.close(a.id) {
            return Ok(None);
        }
        let what = format!("close {}", a.path);
        self.look_for_losses().await;
        let lost = self.losses();
        if lost.is_err() {
            // How far the file reaches only the servers know.
            a.end.fetch_max(END_UNKNOWN, Ordering::AcqRel);
        }
        let written = a.written.load(Ordering::Acquire);
        let wrote = written != i64::MIN;
        let mut request = ReportRequest {
            file: a.id,
            size: None,
            modified: wrote.then_some(written),
            detach: true,
            write: a.write,
            end: Some(a.end.load(Ordering::Acquire)).filter(|end| wrote && *end != END_UNKNOWN),
            kill_priv: false,
            turn: None,
            can_ask: wrote,
            forks: a.forks.load(Ordering::Acquire),
        };
        let mut ending = Ending::new(&a.volume, vec![(a.id, a.write)]);
        let (mut tries, mut unknown) = (0, None);
        let reply = loop {
            let done = |reply: &ReportReply| !reply.size_wanted;
            let told = a.volume.meta_ending(&what, &request, &mut ending, done);
            let reply = told.await?;
            if !reply.size_wanted {
                break reply;
            }
            if tries == SIZE_TRIES {
                // Others come and go all the time: the service asks for the size when they are
                // gone.
                (request.end, request.can_ask) = (None, false);
                continue;
            }
            tries += 1;
            let what = format!("size of {}", a.path);
            let states = a.volume.fork_states(&what, a.cells, &a.layout, "");
            match states.await {
                // The size stays inexact while it is in doubt.
                Ok(states) if states.doubted => (request.end, request.can_ask) = (None, false),
                Ok(ForkStates { forks, .. }) => {
                    // Processes that this attachment was handed over to may have written them.
                    request.forks |= forks.iter().any(|fork| fork.fork != "data");
                    let size = size_of(&a.layout, &forks);
                    (request.size, request.turn) = (Some(size), Some(reply.turn));
                }
                Err(error) => {
                    // It ends all the same: the service asks when the server is back.
                    (request.end, request.can_ask) = (None, false);
                    unknown = Some(error);
                }
            }
        };
        if let Some(error) = unknown {
            return Err(error);
        }
        lost?;
        let alone = reply.alone;
        let closed = |attributes| Closed { attributes, alone };
        Ok(reply.attributes.map(closed))
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
        self.note_write_at(end, self.0.volume.shared.env.clock.now());
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
        if self.own && !self.detached.swap(true, Ordering::AcqRel) {
            self.volume.shared.note_detached(self.id, self.write);
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if self.own && !*self.detached.get_mut() && !self.volume.shared.ahead.close(self.id) {
            let mut ending = Ending::new(&self.volume, vec![(self.id, self.write)]);
            let wrote = *self.written.get_mut() != i64::MIN;
            let request = ReportRequest {
                file: self.id,
                size: None,
                modified: wrote.then_some(*self.written.get_mut()),
                detach: true,
                write: self.write,
                end: None,
                kill_priv: false,
                turn: None,
                can_ask: false,
                forks: *self.forks.get_mut(),
            };
            let volume = self.volume.clone();
            // Outside a runtime there is nobody to send it: the service notices when the connection
            // ends.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    volume
                        .meta_ending("close", &request, &mut ending, |_| true)
                        .await
                });
            }
        }
    }
}

impl Volume {
    /// Makes everything written so far, by anybody, to any file on these servers survive power
    /// loss: one request to each.
    pub async fn sync(&self, servers: impl IntoIterator<Item = ServerId>) -> Result<(), Error> {
        // File 0 is no file: a server syncs all it has, and has no cells to report.
        let unsynced = &self.shared.unsynced;
        let syncs = servers.into_iter().map(|server| async move {
            let asked = unsynced.on_server(server);
            let request = SyncRequest {
                file: 0,
                written: on(&asked, server),
                check_only: false,
            };
            let synced = self.io("sync", server, &request, Repeat::Safe).await;
            match &synced {
                Ok(_) => unsynced.synced(&asked, server),
                Err(error) if error.code() == Code::Lost => {
                    self.find_lost_files(server, error).await;
                }
                Err(_) => {}
            }
            synced
        });
        try_join_all(syncs).await?;
        Ok(())
    }

    /// A server has lost something of some file: asks of which.
    async fn find_lost_files(&self, server: ServerId, error: &Error) {
        let unsynced = &self.shared.unsynced;
        for file in unsynced.files_on(server) {
            let asked = unsynced.of_file(file);
            let request = SyncRequest {
                file: 0,
                written: on(&asked, server),
                check_only: true,
            };
            match self.io("sync", server, &request, Repeat::Safe).await {
                Err(e) if e.code() == Code::Lost => {
                    unsynced.lost(file, &asked, server, &error.to_string());
                }
                _ => {}
            }
        }
    }

    /// One call without payload to an I/O server, which is looked for again if it has moved.
    pub(crate) async fn io<C: Call>(
        &self,
        what: &str,
        server: ServerId,
        request: &C,
        repeat: Repeat,
    ) -> Result<C::Reply, Error> {
        Ok(self.io_stamped(what, server, request, repeat).await?.0)
    }

    /// As [`Volume::io`], and what the server says of the change.
    pub(crate) async fn io_stamped<C: Call>(
        &self,
        what: &str,
        server: ServerId,
        request: &C,
        repeat: Repeat,
    ) -> Result<(C::Reply, Stamp), Error> {
        let mut tries = 0;
        loop {
            let result = match self.server_connection(server).await {
                Ok(connection) => connection.call_stamped(request).await,
                Err(e) => Err(e),
            };
            match result {
                Ok(reply) => return Ok(reply),
                Err(e) if tries == 0 && self.try_again(&e, repeat).await => tries += 1,
                Err(e) => return Err(Error::of_call(format!("{what} on server {server}"), e)),
            }
        }
    }

    pub(crate) async fn server_connection(
        &self,
        server: ServerId,
    ) -> Result<weft_net::Connection, CallError> {
        Ok(self.shared.servers.link(server)?.connection().await?.0)
    }

    /// Whether a call that failed like this may be sent once more; learns where servers are if that
    /// may help.
    pub(crate) async fn try_again(&self, error: &CallError, repeat: Repeat) -> bool {
        match error {
            CallError::Lost { .. } => repeat == Repeat::Safe,
            CallError::Connect(_) => {
                let epoch = self.shared.servers.epoch();
                self.refresh_servers().await.is_ok() && self.shared.servers.epoch() > epoch
            }
            CallError::Failed(_) if error.code() == Code::StaleMap => {
                self.refresh_servers().await.is_ok()
            }
            CallError::Failed(_) | CallError::Protocol { .. } => false,
        }
    }
}
