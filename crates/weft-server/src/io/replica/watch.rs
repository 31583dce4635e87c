//! The work of a replica beside calls: beacons, removals and takeovers, and replicas that catch up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use weft_kv::Position;
use weft_proto::meta::{ChangeReplicasRequest, ReplicaChange, ReplicaSet};
use weft_proto::replica::BeaconRequest;
use weft_store::Store;

use super::catch_up::{Attempt, catch_up};
use super::inherited;
use super::state::{Departure, Part, Replicas, Role};
use crate::io::IoService;
use crate::limits::{
    REPLICA_BEACON, REPLICA_CHANGE_TIMEOUT, REPLICA_LEASE, REPLICA_RETRY, REPLICA_RETRY_MAX,
    REPLICA_SILENCE, REPLICA_TICK,
};
use crate::position;

/// Takes a set that the metadata service has said. A store that was its server's only one is one of
/// several from then on.
pub(crate) async fn learn_replicas(io: &Arc<IoService>, set: &ReplicaSet) {
    let is_known = io.admission.is_accepted();
    let begin = |replicas: &Replicas| {
        // It has served until now, and goes on: what it has in memory stays true.
        if let Some(term) = replicas.must_begin().filter(|_| is_known) {
            replicas.begin(term);
        }
    };
    if io.store.join_others(set, begin).await {
        tokio::spawn(watch_replicas(Arc::downgrade(io)));
    }
}

/// Runs as long as the service exists.
async fn watch_replicas(service: Weak<IoService>) {
    let mut watch = Watch::default();
    let mut changes = None;
    loop {
        let Some(io) = service.upgrade() else { return };
        let Some(replicas) = io.store.replicas().cloned() else {
            return;
        };
        if replicas.is_stopping() {
            return;
        }
        watch.step(&io, &replicas).await;
        let changes = changes.get_or_insert_with(|| replicas.changes());
        drop((io, replicas));
        let _ = timeout(REPLICA_TICK, changes.changed()).await;
    }
}

#[derive(Default)]
struct Watch {
    /// When each backup last got a beacon.
    beacons: BTreeMap<u32, Instant>,
    /// Beacons, removals, and replicas that catch up.
    tasks: JoinSet<(u32, Option<Attempt>)>,
    catching_up: BTreeSet<u32>,
    removing: Arc<Mutex<BTreeSet<u32>>>,
    /// When a replica may try to catch up again, and how often it has failed.
    retry: BTreeMap<u32, (Instant, u32)>,
}

impl Watch {
    async fn step(&mut self, io: &Arc<IoService>, replicas: &Arc<Replicas>) {
        while let Some(done) = self.tasks.try_join_next() {
            if let Ok((number, Some(attempt))) = done {
                self.catching_up.remove(&number);
                let failures = self.retry.get(&number).map_or(0, |(_, failures)| *failures);
                let failures = match attempt {
                    Attempt::Failed => failures + 1,
                    Attempt::CaughtUp | Attempt::NotReached => 0,
                };
                // To fail again may cost a pass over all data.
                let wait = (REPLICA_RETRY * (1 << failures.min(5))).min(REPLICA_RETRY_MAX);
                self.retry.insert(number, (Instant::now() + wait, failures));
            } else if done.is_err() {
                // A panic: which replica it was is not known.
                self.catching_up.clear();
            }
        }
        match replicas.role() {
            Role::Backup { in_sync } => {
                if in_sync && replicas.silence() > REPLICA_SILENCE + stagger(replicas.me.number) {
                    replicas
                        .change(ReplicaChange::TakeOver, replicas.me.number)
                        .await;
                }
            }
            // Not with a folder that is older than it should be.
            Role::Primary if io.admission.is_accepted() => {
                self.step_as_primary(io, replicas).await;
            }
            Role::Primary | Role::Unknown => {}
        }
    }

    async fn step_as_primary(&mut self, io: &Arc<IoService>, replicas: &Arc<Replicas>) {
        if let Some(term) = replicas.must_begin() {
            begin(io, replicas, term).await;
        }
        for (number, reason) in replicas.to_remove() {
            // In a task of its own: the service may be slow, and the others need beacons.
            if self.removing.lock().insert(number) {
                let (replicas, removing) = (replicas.clone(), self.removing.clone());
                self.tasks.spawn(async move {
                    let (server, reason) = (replicas.me.server, reason.as_str());
                    tracing::warn!(
                        server,
                        replica = number,
                        reason,
                        "a replica is not in sync any more"
                    );
                    replicas.change(ReplicaChange::Remove, number).await;
                    removing.lock().remove(&number);
                    (number, None)
                });
            }
        }
        if let Some((term, departure)) = replicas.departure() {
            let number = match departure {
                Departure::Backup(number) => number,
                Departure::Own(_) => replicas.me.number,
            };
            if self.removing.lock().insert(number) {
                let (replicas, removing) = (replicas.clone(), self.removing.clone());
                let io = io.clone();
                self.tasks.spawn(async move {
                    if let Departure::Own(successor) = departure {
                        // It must know whose acknowledgements it has.
                        beacon(&io.store, &replicas, successor).await;
                    }
                    replicas.depart(term, departure).await;
                    removing.lock().remove(&number);
                    (number, None)
                });
            }
        }
        let now = Instant::now();
        for (number, _, part) in replicas.peers() {
            let due = self.beacons.get(&number);
            if part != Part::Away && due.is_none_or(|at| now >= *at + REPLICA_BEACON) {
                self.beacons.insert(number, now);
                let (io, replicas) = (io.clone(), replicas.clone());
                self.tasks.spawn(async move {
                    beacon(&io.store, &replicas, number).await;
                    (number, None)
                });
            }
            let waits = self.retry.get(&number).is_some_and(|(at, _)| now < *at);
            if part == Part::Away && !waits && self.catching_up.insert(number) {
                let (store, replicas) = (Store::clone(&io.store), replicas.clone());
                self.tasks.spawn(async move {
                    let attempt = catch_up(&store, &replicas, number).await;
                    (number, Some(attempt))
                });
            }
        }
    }
}

/// Replicas with higher numbers wait longer, so that not all ask at once.
fn stagger(number: u32) -> std::time::Duration {
    REPLICA_TICK * number
}

/// Begins to serve as primary: ends what an earlier primary has sent, and notes whose
/// acknowledgements this store keeps.
async fn begin(io: &IoService, replicas: &Replicas, term: u64) {
    let _applying = replicas.applying.write().await;
    let incarnations = replicas.incarnations();
    if let Err(error) = inherited::add(&io.store, &incarnations) {
        tracing::error!(%error, "cannot note whose changes this replica has; syncs of clients may report losses");
    }
    io.pointers.forget();
    io.operations.forget_outcomes();
    let server = replicas.me.server;
    tracing::info!(
        server,
        replica = replicas.me.number,
        term,
        "serving as primary"
    );
    replicas.begin(term);
}

async fn beacon(store: &Store, replicas: &Replicas, number: u32) {
    let Ok((term, targets)) = replicas.targets() else {
        return;
    };
    let Some(target) = targets.into_iter().find(|t| t.number == number) else {
        return;
    };
    let request = BeaconRequest {
        term,
        primary: replicas.me.number,
        incarnations: inherited::all(store),
        position: replicas
            .is_flowing()
            .then(|| position::to_wire(store.position())),
    };
    let sent = Instant::now();
    let asked = async {
        let (connection, _) = target.link.connection().await?;
        connection.call(&request).await
    };
    match timeout(REPLICA_LEASE, asked).await {
        Ok(Ok(reply)) => {
            let at = Position {
                incarnation: reply.incarnation,
                sequence: reply.sequence,
            };
            replicas.contacted(number, sent, at);
            replicas.answered(number, sent);
        }
        Ok(Err(error)) => tracing::debug!(replica = number, %error, "no answer to a beacon"),
        Err(_) => {}
    }
}

impl Replicas {
    /// Asks the service for a change of the set, and learns the set that is in force.
    pub(super) async fn change(&self, change: ReplicaChange, replica: u32) -> bool {
        self.ask(self.term(), change, replica).await == Some(true)
    }

    /// Learns the set that is in force: a change that the service does not make is answered with
    /// it.
    /// `None`: the service has not answered.
    pub(super) async fn refresh(&self) -> Option<()> {
        let me = self.me.number;
        self.ask(self.term(), ReplicaChange::Add, me)
            .await
            .map(drop)
    }

    /// As [`Replicas::change`], in this term; `None`: the service has not answered, and may have
    /// made it.
    pub(super) async fn ask(&self, term: u64, change: ReplicaChange, replica: u32) -> Option<bool> {
        let _one = self.changing.lock().await;
        let request = ChangeReplicasRequest {
            server: self.me.server,
            caller: self.me.number,
            term,
            change: change.into(),
            replica,
        };
        let asked = async {
            let (connection, _) = self.me.meta.connection().await?;
            connection.call(&request).await
        };
        match timeout(REPLICA_CHANGE_TIMEOUT, asked).await {
            Ok(Ok(reply)) => {
                self.learn(&reply.set);
                Some(reply.changed)
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, ?change, replica, "cannot change the replicas in sync");
                tokio::time::sleep(REPLICA_TICK).await;
                None
            }
            Err(_) => None,
        }
    }
}
