//! The metadata service's role: one transaction per call, made durable together with those of other
//! callers.

mod append;
mod board;
mod carry;
mod check;
mod checkpoint;
mod growth;
mod locks;
mod owed;
mod rollback;
mod sessions;
mod settle;
mod spill;
mod watchers;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, SetOnce, watch};
use tokio::time::Instant;
use weft_kv::Position;
use weft_meta::{Intent, MetaError, Namespace, Truncation, mutates};
use weft_net::{Env, Identity, Peer, Served};
use weft_proto::coord::{SyncNamespaceReply, SyncNamespaceRequest};
use weft_proto::meta::{
    AcceptRollbackRequest, Credentials, DetachRequest, HeartbeatReply, HeartbeatRequest,
    ListClientsReply, ListClientsRequest, MakeDirectoryReply, MakeDirectoryRequest,
    ReassertRequest, ReportRequest, ServerMapReply, ServerMapRequest, StatReply, StatRequest,
    Target, TruncateRequest,
};
use weft_proto::session::Role;
use weft_proto::stamp::{self, Stamp};
use weft_proto::{Call, Code, Failure, Kind};

use crate::failure;
use crate::group::{Blocking, GroupSync};
use crate::io::unsupported;
use crate::metrics::{Metrics, Stage};
use crate::node::{MetaRole, NodeError, stopped};
use crate::tireless::tireless;

use carry::Carrier;
use locks::Locks;
use sessions::Sessions;
use spill::Lanes;
use watchers::Watchers;

/// Serves the calls of kinds 64 and above from one namespace.
pub struct MetaService {
    env: Env,
    namespace: Namespace,
    group: Arc<GroupSync>,
    metrics: Arc<Metrics>,
    sessions: Sessions,
    carrier: Carrier,
    owed: owed::Owed,
    /// The grace after the start is over: clients of an earlier life have told what they hold.
    recovered: SetOnce<()>,
    spilling: Lanes,
    /// There are new intents.
    owing: Notify,
    /// Something was acknowledged that does not survive power loss yet.
    unsynced: Notify,
    /// One at a time asks how large files are and says how large they may become.
    limiting: tokio::sync::Mutex<growth::Limited>,
    /// Somebody may have more left of a quota than the servers were told.
    freed: Notify,
    /// A file was closed whose size is not exact.
    unsettled: Notify,
    watchers: Watchers,
    locks: Locks,
    blocking: Blocking,
    check: check::Check,
    rollback: rollback::Rollback,
}

/// Until a sync follows what a lazy client was told: with the sync itself less than a second.
const LAZY_SYNC: Duration = Duration::from_millis(500);

/// What an operation needs before it is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stable {
    /// Nothing.
    AsItIs,
    /// A sync, unless the client can wait for it.
    Soon,
    /// A sync.
    Now,
}

impl Stable {
    fn soon_if(committed: bool) -> Stable {
        if committed {
            Stable::Soon
        } else {
            Stable::AsItIs
        }
    }
}

impl MetaService {
    pub(crate) fn open(
        env: Env,
        identity: Identity,
        role: MetaRole,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<MetaService>, NodeError> {
        let namespace = if role.alone {
            Namespace::open_alone(role.kv.clone())
        } else {
            Namespace::open(role.kv.clone())
        }?;
        namespace.begin_incarnation(env.random_u64(), env.clock.now())?;
        let blocking = role.blocking;
        let group = GroupSync::new(role.kv, blocking);
        let group = group.map_err(|e| NodeError::Thread(e.to_string()))?;
        let carrier = Carrier::new(env.clone(), identity);
        let grace = env.timing.grace;
        Ok(Arc::new(MetaService {
            watchers: Watchers::new(env.random_u64()),
            locks: Locks::default(),
            blocking,
            check: check::Check::default(),
            rollback: rollback::Rollback::default(),
            env,
            namespace,
            group,
            metrics,
            sessions: Sessions::default(),
            carrier,
            owed: owed::Owed::default(),
            recovered: SetOnce::new(),
            spilling: Lanes::default(),
            owing: Notify::new(),
            unsynced: Notify::new(),
            limiting: tokio::sync::Mutex::new(growth::Limited::new(grace)),
            freed: Notify::new(),
            unsettled: Notify::new(),
        }))
    }

    /// Makes everything committed so far survive power loss, once no call is served any more.
    pub(crate) async fn close(&self) -> Result<(), String> {
        self.group.sync().await?;
        self.namespace.close().map_err(|e| e.to_string())
    }

    /// The incarnation that acknowledges changes.
    pub(crate) fn incarnation(&self) -> u64 {
        self.namespace.position().map_or(0, |at| at.incarnation)
    }

    pub(crate) fn opened(&self, peer: &Arc<Peer>) {
        if peer.role == Role::Client {
            self.sessions.opened(peer, self.env.clock.now());
        }
    }

    pub(crate) fn closed(&self, peer: &Arc<Peer>) {
        if peer.role == Role::Client {
            self.sessions.closed(peer);
        }
    }

    /// Does what no call waits for, until the node stops.
    pub(crate) async fn run(self: Arc<Self>, stopping: watch::Receiver<bool>) {
        let stopping = || stopping.clone();
        tokio::join!(
            tireless("tend what is owed", || self.tend(stopping())),
            tireless("carry what is owed", || self.carry_owed(stopping())),
            tireless("limit growth", || self.limit_growth(stopping())),
            tireless("settle sizes", || self.settle_sizes(stopping())),
            tireless("sync what was acknowledged", || self
                .sync_lazily(stopping()))
        );
    }

    /// Syncs soon after something was acknowledged without a sync.
    async fn sync_lazily(&self, stopping: watch::Receiver<bool>) {
        let stop = stopped(stopping);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = self.unsynced.notified() => {}
            }
            tokio::select! {
                biased;
                // What is left is synced when the service closes.
                () = &mut stop => return,
                () = tokio::time::sleep(LAZY_SYNC) => {}
            }
            if let Err(reason) = self.group.sync().await {
                tracing::error!(%reason, "what was acknowledged cannot be made durable");
            }
        }
    }

    /// Sees to it that what is owed is carried through, and ends the sessions of clients that stay
    /// away.
    async fn tend(&self, stopping: watch::Receiver<bool>) {
        let grace = self.env.timing.grace;
        let stop = stopped(stopping);
        tokio::pin!(stop);
        let started = Instant::now();
        let every = sessions::TICK.min(grace / 4);
        let mut next_try = started;
        let mut orphans_reaped = false;
        loop {
            if !orphans_reaped && started.elapsed() >= grace {
                // Whoever survived this service has asserted what it has open by now.
                orphans_reaped = logged("reap orphans", &self.namespace.reap_orphans());
                // No other loop sets it.
                let _ = self.recovered.set(());
            }
            for client in self.sessions.ended(grace) {
                logged("end a session", &self.namespace.session_ended(client));
                self.locks.client_ended(client);
                self.lease_holder_ended(client);
            }
            self.tell_watchers();
            self.read_owed_logged();
            if Instant::now() >= next_try {
                self.learn_servers();
                self.owed.tick();
                next_try = Instant::now() + every;
            }
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = self.owing.notified() => {}
                () = tokio::time::sleep_until(next_try) => {}
            }
        }
    }

    /// Every change of the namespace is followed by this.
    fn tell_watchers(&self) {
        self.watchers.tell(self.namespace.changes().published());
    }

    fn learn_servers(&self) {
        if let Ok(map) = self.namespace.server_map(self.env.clock.now()) {
            self.carrier.learn(&map);
        }
    }

    pub(crate) async fn serve(self: Arc<Self>, call: Served) {
        let late = call.kind == Kind::Reassert && !self.sessions.note_told(&call.peer);
        if late || self.sessions.is_given_up(&call.peer) {
            let reason = "its client has given this connection up";
            return call
                .reply
                .fail(&Failure::new(Code::Cancelled, reason.to_owned()));
        }
        if let Err(failure) = self.rollback.check(call.kind) {
            return call.reply.fail(&failure);
        }
        self.answer_kind(call).await;
    }

    async fn answer_kind(self: Arc<Self>, call: Served) {
        let client = call.peer.client;
        let n = &self.namespace.by(client);
        let now = self.env.clock.now();
        match call.kind {
            Kind::Attach => self.attach(call).await,
            Kind::Report => self.report(call).await,
            Kind::Detach => self.detach(call).await,
            Kind::Delegate => self.answer(call, |r| n.delegate(now, client, r)).await,
            Kind::ChangeNames => self.change_names(call).await,
            Kind::Reassert => self.reassert(call).await,
            Kind::SyncNamespace => self.sync_namespace(call).await,
            Kind::Stat => self.answer(call, |r| n.stat(r)).await,
            Kind::SetAttributes => self.answer(call, |r| n.set_attributes(now, r)).await,
            Kind::MakeDirectory => {
                let make = |r: &MakeDirectoryRequest| {
                    let StatReply { attributes } = n.make_directory(now, r)?;
                    let leased = r.lease && n.lease(client, attributes.id)?;
                    Ok(MakeDirectoryReply { attributes, leased })
                };
                self.answer(call, make).await;
            }
            Kind::MakeLink => self.answer(call, |r| n.make_link(now, r)).await,
            Kind::MakeNode => self.answer(call, |r| n.make_node(now, r)).await,
            Kind::Link => self.answer(call, |r| n.link(now, r)).await,
            Kind::Unlink => self.answer(call, |r| n.unlink(now, r)).await,
            Kind::RemoveDirectory => self.answer(call, |r| n.remove_directory(now, r)).await,
            Kind::Rename => self.answer(call, |r| n.rename(now, r)).await,
            Kind::List => self.answer(call, |r| n.list(r)).await,
            Kind::ReadLink => self.answer(call, |r| n.read_link(r)).await,
            Kind::GetXattr => self.answer(call, |r| n.get_xattr(r)).await,
            Kind::SetXattr => self.answer(call, |r| n.set_xattr(now, r)).await,
            Kind::ListXattr => self.answer(call, |r| n.list_xattr(r)).await,
            Kind::RemoveXattr => self.answer(call, |r| n.remove_xattr(now, r)).await,
            Kind::ServerMap => {
                let map = |_: &ServerMapRequest| {
                    let rolled_back = self.rollback.is_found();
                    Ok(ServerMapReply {
                        rolled_back,
                        ..n.server_map(now)?
                    })
                };
                self.answer(call, map).await;
            }
            Kind::ListClients => {
                let clients = |_: &ListClientsRequest| {
                    Ok(ListClientsReply {
                        clients: self.sessions.others(client),
                    })
                };
                self.answer(call, clients).await;
            }
            Kind::Heartbeat if call.peer.role == Role::IoServer => self.heartbeat(call).await,
            Kind::AcceptRollback => self.accept_rollback(call).await,
            Kind::Truncate => self.truncate(call).await,
            Kind::MakeCheckpoint => self.make_checkpoint(call).await,
            Kind::RemoveCheckpoint => self.remove_checkpoint(call).await,
            Kind::RollBack => self.roll_back(call).await,
            Kind::ListCheckpoints => self.answer(call, |r| n.list_checkpoints(r)).await,
            Kind::ListFileCheckpoints => self.answer(call, |r| n.list_file_checkpoints(r)).await,
            Kind::CheckNamespace => self.check_namespace(call).await,
            Kind::ListFiles => self.answer(call, |r| n.list_files(r)).await,
            Kind::RepairNamespace => self.repair_namespace(call).await,
            Kind::AdoptFile => self.adopt_file(call).await,
            Kind::NamesOf => self.names_of(call).await,
            Kind::SetQuota => self.answer(call, |r| n.set_quota(r)).await,
            Kind::ListQuotas => self.answer(call, |r| n.list_quotas(r)).await,
            Kind::QuotasOf => self.answer(call, |r| n.quotas_of(r)).await,
            Kind::StoreInline => self.store_inline(call).await,
            Kind::Spill => self.spill_for(call).await,
            Kind::Lock => self.lock(call).await,
            Kind::TestLock => self.test_lock(call),
            Kind::Watch => self.watch(call).await,
            Kind::Append => self.append(call).await,
            _ => unsupported(call, "the metadata service"),
        }
    }

    async fn report(&self, call: Served) {
        let client = call.peer.client;
        let n = &self.namespace.by(client);
        let report = |r: &ReportRequest| {
            let reply = n.report(client, r)?;
            if r.detach && !n.is_attached(client, r.file) {
                self.locks.detached(client, r.file);
            }
            Ok(reply)
        };
        self.answer(call, report).await;
    }

    async fn detach(&self, call: Served) {
        let client = call.peer.client;
        let n = &self.namespace.by(client);
        let detach = |r: &DetachRequest| {
            let reply = n.detach(client, r)?;
            for file in r.reading.iter().chain(&r.writing) {
                if !n.is_attached(client, *file) {
                    self.locks.detached(client, *file);
                }
            }
            Ok(reply)
        };
        self.answer(call, detach).await;
    }

    async fn reassert(&self, call: Served) {
        let client = call.peer.client;
        let n = &self.namespace.by(client);
        let reassert = |r: &ReassertRequest| {
            self.sessions.note_said(client, r.lazy, &r.name);
            let mut reply = n.reassert(client, r)?;
            let attached = |file| n.is_attached(client, file);
            reply.lost = self.locks.reassert(client, &r.locks, attached);
            Ok(reply)
        };
        self.answer(call, reassert).await;
    }

    async fn sync_namespace(&self, call: Served) {
        let n = &self.namespace.by(call.peer.client);
        let sync = |r: &SyncNamespaceRequest| {
            for at in &r.changed {
                n.still_has(Position {
                    incarnation: at.incarnation,
                    sequence: at.sequence,
                })?;
            }
            Ok((SyncNamespaceReply {}, Stable::Now))
        };
        self.answer_with(call, sync).await;
    }

    async fn accept_rollback(&self, call: Served) {
        let n = &self.namespace.by(call.peer.client);
        if self.rollback.is_found() {
            // The servers know sizes that an older namespace does not: on stable storage before
            // anybody is served.
            let doubted = match rollback::doubt_sizes(n).await {
                Ok(()) => self.stable(Stable::Now, call.peer.client, call.kind).await,
                Err(error) => Err(failure::of_meta(&error)),
            };
            if let Err(failure) = doubted {
                return call.reply.fail(&failure);
            }
        }
        let accept = |r: &AcceptRollbackRequest| self.rollback.accept(n, *r);
        self.answer(call, accept).await;
        self.unsettled.notify_one();
    }

    async fn heartbeat(&self, call: Served) {
        let n = &self.namespace.by(call.peer.client);
        let now = self.env.clock.now();
        n.note_durable(self.group.durable());
        let heartbeat = |r: &HeartbeatRequest| {
            self.rollback.heard(n, r);
            let reply = n.heartbeat(now, r)?;
            // What a server heard of a namespace that went back it must not forget yet.
            let service = reply.service.filter(|_| !self.rollback.is_found());
            Ok(HeartbeatReply { service, ..reply })
        };
        self.answer(call, heartbeat).await;
    }

    /// Runs one operation; answers once its changes, if its kind makes any, are on stable storage.
    async fn answer<C: Call>(
        &self,
        call: Served,
        operation: impl Fn(&C) -> Result<C::Reply, MetaError>,
    ) {
        let stable = Stable::soon_if(mutates(call.kind));
        self.answer_with(call, |request| {
            operation(request).map(|reply| (reply, stable))
        })
        .await;
    }

    /// As [`MetaService::answer`], for an operation that says itself whether it must be on stable
    /// storage.
    async fn answer_with<C: Call>(
        &self,
        call: Served,
        operation: impl Fn(&C) -> Result<(C::Reply, Stable), MetaError>,
    ) {
        let started = Instant::now();
        let request = match call.request::<C>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let mut tries = 0;
        let result = loop {
            match operation(&request) {
                Ok(done) => break Ok(done),
                Err(error) => {
                    if let Err(failure) = self.wait_for_names(error, &mut tries).await {
                        break Err(failure);
                    }
                }
            }
        };
        self.finish::<C>(call, started, result).await;
    }

    /// Answers with the outcome of an operation, once what it committed may be acknowledged.
    async fn finish<C: Call>(
        &self,
        call: Served,
        started: Instant,
        result: Result<(C::Reply, Stable), Failure>,
    ) {
        let kind = call.kind;
        self.tell_watchers();
        self.recalled(call.peer.client).await;
        if let Ok((_, stable)) = &result
            && let Err(failure) = self.stable(*stable, call.peer.client, kind).await
        {
            return call.reply.fail(&failure);
        }
        let frees = matches!(
            kind,
            Kind::Unlink
                | Kind::Rename
                | Kind::Report
                | Kind::StoreInline
                | Kind::Detach
                | Kind::ChangeNames
        );
        if result.is_ok() && frees {
            self.owing.notify_one();
        }
        let ends = matches!(kind, Kind::Report | Kind::Detach | Kind::Reassert);
        if ends && self.namespace.has_unsettled() {
            self.unsettled.notify_one();
        }
        if result.is_ok() && (frees || kind == Kind::SetQuota) && self.namespace.limits_growth() {
            self.freed.notify_one();
        }
        match result {
            Ok((reply, Stable::Soon)) => call.reply.done_at(&reply, &self.stamp()),
            Ok((reply, _)) => call.reply.done(&reply),
            Err(failure) => {
                tracing::debug!(client = call.peer.client, call = call.id, kind = kind.name(), error = %failure.message, "refused");
                call.reply.fail(&failure);
            }
        }
        self.metrics.stage(kind, Stage::Total, started.elapsed());
    }

    /// What replies to calls that changed something say of it: taken after the change.
    fn stamp(&self) -> Stamp {
        let at = self.namespace.position();
        Stamp {
            changed: at.map(|at| stamp::Position {
                incarnation: at.incarnation,
                sequence: at.sequence,
            }),
            durable: self.group.durable(),
        }
    }

    /// Returns when what was committed may be acknowledged to this client.
    async fn stable(&self, stable: Stable, client: u64, kind: Kind) -> Result<(), Failure> {
        match stable {
            Stable::AsItIs => Ok(()),
            Stable::Soon if self.sessions.is_lazy(client) => {
                self.unsynced.notify_one();
                Ok(())
            }
            Stable::Soon | Stable::Now => self.durable(kind).await,
        }
    }

    async fn durable(&self, kind: Kind) -> Result<(), Failure> {
        let started = Instant::now();
        let synced = self.group.sync().await;
        self.metrics.stage(kind, Stage::Sync, started.elapsed());
        synced.map_err(|reason| {
            Failure::new(
                Code::Io,
                format!("the namespace cannot be made durable: {reason}"),
            )
        })
    }

    /// Writes the intent, then carries it through before it answers; what a server missed is done
    /// when it is back.
    async fn truncate(self: Arc<Self>, call: Served) {
        let started = Instant::now();
        let request = match call.request::<TruncateRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let namespace = self.namespace.by(call.peer.client);
        let now = self.env.clock.now();
        let mut tries = 0;
        let truncation = loop {
            match namespace.truncate(now, &request) {
                Ok(truncation) => break truncation,
                Err(error) => {
                    if let Err(failure) = self.make_cells(error, &mut tries).await {
                        return call.reply.fail(&failure);
                    }
                }
            }
        };
        let result = match truncation {
            Truncation::Done(reply) => {
                self.tell_watchers();
                let stable = self.stable(Stable::Soon, call.peer.client, Kind::Truncate);
                stable.await.map(|()| reply)
            }
            Truncation::Owed(intent) => {
                // Carried through even if the caller goes away meanwhile.
                let service = self.clone();
                let carried = tokio::spawn(async move { service.carry_truncate(&intent).await });
                self.freed.notify_one();
                match carried.await {
                    Ok(result) => result,
                    Err(_) => return,
                }
            }
        };
        match result {
            Ok(reply) => call.reply.done_at(&reply, &self.stamp()),
            Err(failure) => call.reply.fail(&failure),
        }
        self.metrics
            .stage(Kind::Truncate, Stage::Total, started.elapsed());
    }

    async fn carry_truncate(&self, intent: &Intent) -> Result<StatReply, Failure> {
        let file = intent.file().0;
        let what = "the truncation will be completed when the server is back";
        self.carry_one(intent.number(), 1, what).await?;
        let who = Credentials::default();
        let target = Target {
            at: file,
            ..Target::default()
        };
        self.namespace
            .stat(&StatRequest { who, target })
            .map_err(|e| failure::of_meta(&e))
    }
}

/// Notes a failure that nobody is told of; whether it went well.
fn logged<T>(doing: &str, result: &Result<T, MetaError>) -> bool {
    if let Err(error) = result {
        tracing::error!(%error, "cannot {doing}");
    }
    result.is_ok()
}
