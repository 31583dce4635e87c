//! The I/O server's role: requests become jobs on one store.
//!
//! [`IoService`] owns the store and hands each call to one of these modules, lowest first:
//!
//! - `job`: a checked request, and walks over its pieces; `plan`: from pieces to ranges on disk;
//! - `clients`: what each client may hold in memory; `admission`: whether the server takes part;
//! - `rows`: bytes that are computed from data and parity on other servers;
//! - `replica`: the store, whose changes go to all replicas of the server;
//! - `order`: claims of operations that are atomic, also across servers;
//! - `sharers`: clients that keep names of chunks, and are told of changes;
//! - `data`: reads, writes, copies; `cells`: status, sync, forks; `collective`: jobs of groups;
//! - `pointers`: shared offset pointers;
//! - `checkpoint`: the write gates and checkpoints; `growth`: the limits that quotas set;
//! - `coding`: parity of quiet files;
//! - `upkeep`: scrub, check, disks, losses.
//!
//! State that several calls share is in a type of its module, behind methods.

mod admission;
mod cells;
mod checkpoint;
mod clients;
mod coding;
mod collective;
mod data;
mod dispatch;
mod growth;
mod job;
mod order;
mod peers;
mod plan;
mod pointers;
mod replica;
mod rows;
mod sharers;
mod upkeep;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weft_layout::FileId;
use weft_net::{CallError, Peer, WallClock};
use weft_proto::io::Access;
use weft_proto::meta::ServerMapReply;
use weft_proto::stamp::Stamp;
use weft_proto::{Code, Failure, limits};
use weft_store::{Store, Timestamp};

use crate::failure;
use crate::metrics::Metrics;
use crate::position;

use admission::AdmissionGate;
use checkpoint::{FrozenFiles, WriteGates};
use clients::Clients;
use collective::Collectives;
use growth::GrowthLimits;
use job::Job;
use order::{ForcedCaution, Operations, Schedules};
use pointers::Pointers;
use sharers::Sharers;
use upkeep::{Cleaner, Scrubber, StoreChecks};

pub(crate) use admission::Admission;
pub(crate) use coding::code_quiet_files;
pub(crate) use peers::Peers;
pub(crate) use replica::{ReplicaIdentity, Replicas, ReplicatedStore, learn_replicas};
pub(crate) use rows::Rows;
pub(crate) use upkeep::clean_regularly;
pub use upkeep::finding_on_the_wire;

/// Larger than any file id.
const SINCE_UNKNOWN: u64 = u64::MAX;

/// Serves the calls of kinds 32 to 63, and of 128 and above, from one store.
pub(crate) struct IoService {
    store: ReplicatedStore,
    clock: Arc<dyn WallClock>,
    metrics: Arc<Metrics>,
    /// The newest known epoch of the server map; requests with an older one are refused.
    epoch: AtomicU64,
    /// Files with smaller ids are older than the store; [`SINCE_UNKNOWN`] until the metadata
    /// service has said which.
    since: AtomicU64,
    admission: AdmissionGate,
    clients: Clients,
    scrubber: Arc<Scrubber>,
    cleaner: Cleaner,
    gates: WriteGates,
    held: FrozenFiles,
    checks: StoreChecks,
    collectives: Collectives,
    growth: GrowthLimits,
    peers: Arc<Peers>,
    pointers: Pointers,
    schedules: Schedules,
    operations: Operations,
    forced: ForcedCaution,
    sharers: Sharers,
    server: u32,
}

impl IoService {
    /// A service over an open store. `grace`: the time that clients have to come back to the
    /// metadata service.
    pub(crate) fn new(
        store: ReplicatedStore,
        clock: Arc<dyn WallClock>,
        metrics: Arc<Metrics>,
        peers: Arc<Peers>,
        grace: Duration,
        server: u32,
    ) -> IoService {
        let sharers = Sharers::new(clock.now().cast_unsigned());
        IoService {
            scrubber: Scrubber::new(&store),
            store,
            clock,
            metrics,
            epoch: AtomicU64::new(0),
            since: AtomicU64::new(SINCE_UNKNOWN),
            admission: AdmissionGate::new(),
            clients: Clients::default(),
            cleaner: Cleaner::default(),
            gates: WriteGates::default(),
            held: FrozenFiles::default(),
            checks: StoreChecks::default(),
            collectives: Collectives::default(),
            growth: GrowthLimits::new(grace),
            peers,
            pointers: Pointers::default(),
            schedules: Schedules::default(),
            operations: Operations::default(),
            forced: ForcedCaution::default(),
            sharers,
            server,
        }
    }

    /// The store that it serves.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The server map, as the metadata service has it now.
    pub(crate) async fn server_map(&self) -> Result<ServerMapReply, CallError> {
        self.peers.server_map().await
    }

    /// The replicas of the server; `None`: it has one store, as far as this process knows.
    pub(crate) fn replicas(&self) -> Option<&Arc<Replicas>> {
        self.store.replicas()
    }

    /// The metadata service has compared the store with the server's earlier reports.
    pub(crate) fn set_admission(&self, admission: Admission) {
        self.admission.set(admission);
    }

    /// The server map has reached this epoch.
    pub(crate) fn set_epoch(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Files below this id are older than the store.
    pub(crate) fn set_since(&self, file: u64) {
        self.since.store(file, Ordering::Release);
    }

    pub(crate) fn opened(&self, peer: &Peer) {
        self.clients.opened(peer.client);
    }

    pub(crate) fn closed(self: &Arc<Self>, peer: &Peer) {
        let client = peer.client;
        if self.clients.closed(client) {
            self.sharers.remove(client);
            let service = self.clone();
            tokio::spawn(async move { service.resolve_client(client).await });
        }
    }

    /// The position of a change, for its reply: taken after the change.
    fn stamp(&self) -> Stamp {
        Stamp {
            changed: Some(position::to_wire(self.store.position())),
            durable: self.store.durable_position().sequence,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.clock.now())
    }

    /// Refuses files that the store lost because it was formatted after they were made: an empty
    /// cell of such a file is no hole.
    fn check_present(&self, file: FileId) -> Result<(), Failure> {
        let since = self.since.load(Ordering::Acquire);
        if file.0 >= since || self.store.holds(file) {
            return Ok(());
        }
        if since == SINCE_UNKNOWN {
            let what = "this server has nothing of the file, and the metadata service has not said yet whether it was lost; try again";
            return Err(Failure::new(Code::Busy, what));
        }
        let what = "what this server held of the file is lost: the server was formatted after the file was made; restore the \
                    file from a copy, or accept the loss by `weft fsck --accept FILE`, or of all files by `--accept-server`";
        Err(Failure::new(Code::Corrupt, what))
    }

    fn check_epoch(&self, epoch: u64) -> Result<(), Failure> {
        let known = self.epoch.load(Ordering::Acquire);
        if epoch != 0 && epoch < known {
            let what = format!("the server map has changed: epoch {epoch} asked, {known} in force");
            return Err(Failure::new(Code::StaleMap, what));
        }
        Ok(())
    }

    /// The job of a request on a file that the server holds, with at most
    /// [`limits::TRANSFER_MAX`] bytes for each server.
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

    /// As [`IoService::job`], for calls whose cost does not grow with their bytes.
    fn unbounded_job(&self, access: &Access) -> Result<Job, Failure> {
        self.check_present(FileId(access.file))?;
        self.job_of_any(access)
    }

    /// As [`IoService::unbounded_job`], also for a file that the store has lost.
    fn job_of_any(&self, access: &Access) -> Result<Job, Failure> {
        self.check_epoch(access.epoch)?;
        Job::new(access)
    }
}
