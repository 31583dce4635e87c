//! The I/O server's role: requests become jobs on the store.

mod advise;
mod cells;
mod check;
mod checkpoint;
mod clear;
mod collective;
mod copy;
mod data_runs;
mod disks;
pub(crate) mod growth;
mod held;
mod peers;
mod plan;
mod read;
mod scrub;
mod send;
mod standing;
mod upkeep;
mod walk;
mod write;

pub use check::on_the_wire as finding_on_the_wire;
pub(crate) use peers::Peers;
use send::Sender;
pub(crate) use standing::Standing;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use weft_kv::Position;
use weft_layout::{FileId, Map, Request, ServerSlot};
use weft_net::{Peer, Served, WallClock};
use weft_proto::io::Access;
use weft_proto::stamp::{self, Stamp};
use weft_proto::upkeep::{LossesRequest, ScrubStatusRequest};
use weft_proto::{Code, Failure, Kind, limits};
use weft_store::{ForkName, Store, Timestamp};

use crate::failure;
use crate::metrics::Metrics;

/// Bytes that the read jobs of one client may hold between disk and wire.
const CLIENT_BUDGET: usize = 8 << 20;

/// No id is as large.
const NOT_HEARD: u64 = u64::MAX;

/// Serves the calls of kinds 32 to 63 from one store.
pub struct IoService {
    store: Store,
    clock: Arc<dyn WallClock>,
    metrics: Arc<Metrics>,
    /// The server map's epoch as last heard; requests of an older one are told so.
    epoch: AtomicU64,
    /// Files of smaller ids are older than the store; [`NOT_HEARD`] until the metadata service has
    /// said.
    since: AtomicU64,
    clients: Mutex<HashMap<u64, Client>>,
    scrubber: Arc<scrub::Scrubber>,
    gates: checkpoint::Gates,
    held: held::HeldFiles,
    checks: check::Checks,
    collectives: collective::Collectives,
    growth: growth::Growth,
    peers: Peers,
    stands: standing::Stands,
    server: u32,
}

struct Client {
    connections: usize,
    budget: Arc<Semaphore>,
    share: Arc<collective::Share>,
}

/// A request, checked: what every data call starts with.
struct Job {
    map: Map,
    request: Request,
    slot: ServerSlot,
    file: FileId,
    fork: ForkName,
    /// 0: the file as it is.
    checkpoint: u64,
}

impl IoService {
    /// A service over an open store; `grace`: the time that clients have to come back to the
    /// metadata service.
    pub(crate) fn new(
        store: Store,
        clock: Arc<dyn WallClock>,
        metrics: Arc<Metrics>,
        peers: Peers,
        grace: Duration,
        server: u32,
    ) -> IoService {
        IoService {
            scrubber: scrub::Scrubber::new(&store),
            store,
            clock,
            metrics,
            epoch: AtomicU64::new(0),
            since: AtomicU64::new(NOT_HEARD),
            clients: Mutex::default(),
            gates: checkpoint::Gates::default(),
            held: held::HeldFiles::default(),
            checks: check::Checks::default(),
            collectives: collective::Collectives::default(),
            growth: growth::Growth::new(grace),
            peers,
            stands: standing::Stands::new(Standing::NotCompared),
            server,
        }
    }

    /// The metadata service has compared the store with what its server said before.
    pub(crate) fn set_standing(&self, standing: Standing) {
        self.stands.set(standing);
    }

    /// The store behind it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Takes note of a server map.
    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Takes note of which files are older than the store.
    pub(crate) fn set_since(&self, file: u64) {
        self.since.store(file, Ordering::Release);
    }

    /// Refuses files that the store has nothing of because it was formatted after they were made:
    /// an empty cell of theirs is no hole.
    fn check_held(&self, file: FileId) -> Result<(), Failure> {
        let since = self.since.load(Ordering::Acquire);
        if file.0 >= since || self.store.holds(file) {
            return Ok(());
        }
        if since == NOT_HEARD {
            let what = "this server has nothing of the file, and the metadata service has not said yet whether it was lost; try again";
            return Err(Failure::new(Code::Busy, what));
        }
        let what = "what this server held of the file is lost: the server was formatted after the file was made; restore the \
                    file from a copy, or accept the loss by `weft fsck --accept FILE`, or of all files by `--accept-server`";
        Err(Failure::new(Code::Corrupt, what))
    }

    pub(crate) fn opened(&self, peer: &Peer) {
        self.clients()
            .entry(peer.client)
            .or_insert_with(|| Client {
                connections: 0,
                budget: Arc::new(Semaphore::new(CLIENT_BUDGET)),
                share: Arc::default(),
            })
            .connections += 1;
    }

    pub(crate) fn closed(&self, peer: &Peer) {
        let mut clients = self.clients();
        if let Some(client) = clients.get_mut(&peer.client) {
            client.connections -= 1;
            if client.connections == 0 {
                clients.remove(&peer.client);
            }
        }
    }

    pub(crate) async fn serve(&self, call: Served) {
        if let Err(failure) = self.stands.check(call.kind, self.server).await {
            return call.reply.fail(&failure);
        }
        match call.kind {
            Kind::Read => self.read(call).await,
            Kind::Write => self.write(call).await,
            // Boxed: what is large and rare would lie in the future of every small call.
            Kind::CollectiveRead => Box::pin(self.collective_read(call)).await,
            Kind::CollectiveWrite => Box::pin(self.collective_write(call)).await,
            Kind::JoinedRead => Box::pin(self.joined_read(call)).await,
            Kind::JoinedWrite => Box::pin(self.joined_write(call)).await,
            Kind::CopyRange => {
                Box::pin(self.change(call, async |r| self.copy_range(r).await)).await;
            }
            Kind::SendRange => {
                let sender = Sender::new(self.budget(&call.peer), call.reply.caller());
                Box::pin(answer(call, async |r| self.send_range(r, &sender).await)).await;
            }
            Kind::Sync => answer(call, async |r| self.sync(r).await).await,
            Kind::CellStatus => answer(call, async |r| self.cell_status(r).await).await,
            Kind::CreateFork => self.change(call, async |r| self.create_fork(r).await).await,
            Kind::RemoveFork => self.change(call, async |r| self.remove_fork(r).await).await,
            Kind::DataRuns => answer(call, async |r| self.data_runs(r).await).await,
            Kind::Advise => answer(call, async |r| self.advise(r).await).await,
            Kind::Disks => answer(call, async |r| Ok(self.disks(r))).await,
            Kind::Trim => answer(call, async |r| self.trim(r).await).await,
            Kind::Losses => answer(call, async |_: LossesRequest| self.losses()).await,
            Kind::AcceptLosses => answer(call, async |r| self.accept_losses(r).await).await,
            Kind::Scrub => answer(call, async |r| Ok(self.scrub(r))).await,
            Kind::ScrubStatus => {
                let status = async |_: ScrubStatusRequest| Ok(self.scrub_status());
                answer(call, status).await;
            }
            Kind::ListCells => answer(call, async |r| self.list_cells(r).await).await,
            Kind::ListKept => answer(call, async |r| self.list_kept(r)).await,
            Kind::WhichDeleted => answer(call, async |r| Ok(self.which_deleted(&r))).await,
            Kind::CheckStore => answer(call, async |r| self.check_store(r).await).await,
            Kind::ClearRange => self.change(call, async |r| self.clear_range(r).await).await,
            Kind::ExtendCells => {
                self.change(call, async |r| self.extend_cells(r).await)
                    .await;
            }
            Kind::TruncateCells => {
                let Some(call) = only_service(call) else {
                    return;
                };
                answer(call, async |r| self.truncate_cells(r).await).await;
            }
            Kind::Checkpoint => {
                let Some(call) = only_service(call) else {
                    return;
                };
                answer(call, async |r| self.checkpoint(r).await).await;
            }
            Kind::LimitGrowth => {
                let Some(call) = only_service(call) else {
                    return;
                };
                answer(call, async |r| self.limit_growth(r).await).await;
            }
            Kind::Rollback => {
                let Some(call) = only_service(call) else {
                    return;
                };
                answer(call, async |r| self.rollback(r).await).await;
            }
            Kind::DropCheckpoint => {
                let Some(call) = only_service(call) else {
                    return;
                };
                answer(call, async |r| self.drop_checkpoint(r).await).await;
            }
            Kind::DeleteCells => {
                let Some(call) = only_service(call) else {
                    return;
                };
                answer(call, async |r| self.delete_cells(r).await).await;
            }
            _ => unsupported(call, "an I/O server"),
        }
    }

    /// What replies to calls that changed something say of it: taken after the change.
    fn stamp(&self) -> Stamp {
        let Position {
            incarnation,
            sequence,
        } = self.store.position();
        Stamp {
            changed: Some(stamp::Position {
                incarnation,
                sequence,
            }),
            durable: self.store.durable_position().sequence,
        }
    }

    /// Serves a call that changes something and has no payload either way.
    async fn change<C: weft_proto::Call>(
        &self,
        call: Served,
        work: impl AsyncFnOnce(C) -> Result<C::Reply, Failure>,
    ) {
        let request = match call.request::<C>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        match work(request).await {
            Ok(reply) => call.reply.done_at(&reply, &self.stamp()),
            Err(failure) => call.reply.fail(&failure),
        }
    }

    fn clients(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the read jobs of this client share; a client that is gone gets a budget of its own.
    fn budget(&self, peer: &Peer) -> Arc<Semaphore> {
        self.clients().get(&peer.client).map_or_else(
            || Arc::new(Semaphore::new(CLIENT_BUDGET)),
            |c| c.budget.clone(),
        )
    }

    /// What the collectives of this client share; one that is gone gets a share of its own.
    fn share(&self, peer: &Peer) -> Arc<collective::Share> {
        let clients = self.clients();
        let client = clients.get(&peer.client);
        client.map(|c| c.share.clone()).unwrap_or_default()
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.clock.now())
    }

    fn check_epoch(&self, epoch: u64) -> Result<(), Failure> {
        let known = self.epoch.load(Ordering::Acquire);
        if epoch != 0 && epoch < known {
            let what = format!("the server map has changed: epoch {epoch} asked, {known} in force");
            return Err(Failure::new(Code::StaleMap, what));
        }
        Ok(())
    }

    fn job(&self, access: &Access) -> Result<Job, Failure> {
        let job = self.unbounded_job(access)?;
        let (memory, servers) = (job.request.memory(), job.map.grid().servers());
        if memory > limits::TRANSFER_MAX * u64::from(servers) {
            let what = format!(
                "one call moves at most {} bytes for each server of the file; {memory} were asked for",
                limits::TRANSFER_MAX,
            );
            return Err(failure::invalid(what));
        }
        Ok(job)
    }

    /// As [`IoService::job`], for what costs nothing that grows with the bytes it touches.
    fn unbounded_job(&self, access: &Access) -> Result<Job, Failure> {
        self.check_held(FileId(access.file))?;
        self.job_of_any(access)
    }

    /// As [`IoService::unbounded_job`], also of a file of which the store lost what it had.
    fn job_of_any(&self, access: &Access) -> Result<Job, Failure> {
        self.check_epoch(access.epoch)?;
        let (map, request) = access.checked().map_err(|e| failure::of_convert(&e))?;
        let fork = ForkName::new(&access.fork).map_err(|e| failure::invalid(e.to_string()))?;
        Ok(Job {
            map,
            request,
            slot: ServerSlot(access.slot),
            file: file_id(access.file)?,
            fork,
            checkpoint: access.checkpoint,
        })
    }
}

/// The file that a call names.
fn file_id(id: u64) -> Result<FileId, Failure> {
    let file = FileId(id);
    if file == weft_store::ADDRESSED {
        let what =
            "this id is no file's: chunks that are named by what they hold are kept under it";
        return Err(failure::invalid(what.to_owned()));
    }
    Ok(file)
}

impl Job {
    /// Refuses what is not to be done to a checkpoint.
    fn living(self) -> Result<Self, Failure> {
        match self.checkpoint {
            0 => Ok(self),
            _ => Err(failure::invalid("a checkpoint can only be read")),
        }
    }
}

/// Serves a call that has no payload either way.
async fn answer<C: weft_proto::Call>(
    call: Served,
    work: impl AsyncFnOnce(C) -> Result<C::Reply, Failure>,
) {
    let request = match call.request::<C>() {
        Ok(request) => request,
        Err(e) => return call.reply.fail(&failure::of_frame(&e)),
    };
    match work(request).await {
        Ok(reply) => call.reply.done(&reply),
        Err(failure) => call.reply.fail(&failure),
    }
}

/// Lets through what only the metadata service may ask.
fn only_service(call: Served) -> Option<Served> {
    if call.peer.role == weft_proto::session::Role::MetaService {
        return Some(call);
    }
    let what = format!("{} comes from the metadata service only", call.kind.name());
    call.reply.fail(&Failure::new(Code::Permission, what));
    None
}

pub(crate) fn unsupported(call: Served, who: &str) {
    let what = format!(
        "{} was sent to {who}, which does not serve it; check the address",
        call.kind.name()
    );
    call.reply.fail(&Failure::new(Code::Unsupported, what));
}
