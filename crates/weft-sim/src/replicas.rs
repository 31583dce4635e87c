//! A run from a seed in which servers have replicas: clients write and read, faults come one after
//! the other or two at a time, and at the end each replica is the primary once. Meanwhile a replica
//! of each server is replaced by another machine's; some servers have one store in the beginning.
//!
//! Each slot of a file has one writer, whose versions ascend. A read must show a version that is at
//! least the last one that was acknowledged when it began, and at least what any read that ended
//! before showed: so an old primary that still answers is found, and an acknowledged change that a
//! replica lacks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::time::{sleep, timeout};
use turmoil::Sim;
use weft_client::{Access, ConnectOptions, Error, NewLayout, OpenView, Volume};
use weft_layout::ViewOffset;

use crate::cluster::{Cluster, Fault, simulation};
use crate::plan::Plan;
use crate::state::Outcome;

/// Replicas of a server in the end.
const REPLICAS: usize = 2;
/// Machines of a server: one more, which takes another one's place.
const MACHINES: usize = 3;
/// Within a block, so that a slot is never read in the middle of a write.
const SLOT: usize = 512;
const SLOTS: u64 = 48;
/// A call that takes longer hangs.
const HANGS: Duration = Duration::from_mins(1);
/// How long replicas may take until all are in sync after the last fault.
const CALM: Duration = Duration::from_mins(1);

/// What is known of a slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The last version whose write has begun.
    begun: u64,
    /// The last version that was acknowledged, or that a read has shown.
    least: u64,
}

#[derive(Default)]
struct Shared {
    outcome: Outcome,
    /// By writer and slot.
    slots: BTreeMap<(usize, u64), Slot>,
    /// Clients that have operations to do.
    busy: usize,
    /// Of each server, the machine of its primary, if all its replicas are in sync and up.
    primaries: Vec<Option<usize>>,
    /// The look that is wanted at everything, and the last one that is done.
    look: (u32, u32),
    /// Machines are still to join.
    moving: bool,
    ended: bool,
}

impl Shared {
    fn note_wrong(&mut self, what: String) {
        self.outcome.wrong.get_or_insert(what);
    }

    fn count<T>(&mut self, kind: &'static str, result: &Result<T, Error>) {
        let count = self.outcome.operations.entry(kind).or_default();
        match result {
            Ok(_) => count.acknowledged += 1,
            Err(_) => count.failed += 1,
        }
    }
}

#[derive(Clone)]
struct State(Arc<Mutex<Shared>>);

impl State {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn content(writer: usize, slot: u64, version: u64) -> Bytes {
    let mut out = Vec::with_capacity(SLOT);
    out.extend_from_slice(&version.to_le_bytes());
    let mut state =
        ((writer as u64) << 56 ^ slot << 40 ^ version).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while out.len() < SLOT {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.into()
}

/// Runs a plan with replicas, until its end or until something is wrong.
pub fn run_replicas(plan: Plan) -> Outcome {
    // With one store, or with both replicas from the beginning.
    let formatted = 1 + (plan.seed % 2) as usize;
    let cluster = Cluster::with_replicas(plan.seed, plan.servers, formatted, MACHINES, plan.canary);
    let cluster = Arc::new(cluster);
    let mut sim = simulation(plan.seed, Duration::from_mins(30));
    cluster.start(&mut sim);
    let state = State(Arc::new(Mutex::new(Shared {
        busy: plan.clients,
        primaries: vec![None; plan.servers],
        ..Shared::default()
    })));
    for number in 0..plan.clients {
        let client = Client {
            number,
            plan,
            state: state.clone(),
            rng: SmallRng::seed_from_u64(plan.seed ^ (number as u64) << 48),
        };
        let options = cluster.client(number);
        sim.client(Cluster::client_host(number), async move {
            let done = client.run(options).await;
            done.map_err(|e| format!("client {number}: {e}").into())
        });
    }
    let (options, watching) = (cluster.client(plan.clients), state.clone());
    let joining = cluster.clone();
    sim.client(Cluster::client_host(plan.clients), async move {
        let moves = Moves::new(plan, formatted, joining);
        let done = watch(watching, options, moves).await;
        done.map_err(|e| format!("the watching client: {e}").into())
    });
    let mut faults = Faults::new(plan);
    loop {
        match sim.step() {
            Ok(false) => {}
            Ok(true) => break,
            Err(error) => state.lock().note_wrong(error.to_string()),
        }
        if state.lock().outcome.wrong.is_some() {
            break;
        }
        faults.step(&mut sim, &cluster, &state);
    }
    cluster.end();
    let outcome = state.lock().outcome.clone();
    Outcome {
        network: cluster.heard().digest(),
        ..outcome
    }
}

/// The machines that are still to join, one after the other.
struct Moves {
    left: Vec<Move>,
    cluster: Arc<Cluster>,
}

struct Move {
    machine: usize,
    replaces: Option<u32>,
    /// Looks at the server map until it is asked for.
    wait: u32,
}

impl Moves {
    fn new(plan: Plan, formatted: usize, cluster: Arc<Cluster>) -> Moves {
        let mut rng = SmallRng::seed_from_u64(plan.seed ^ 0x0047);
        let mut left = Vec::new();
        for number in (formatted..MACHINES).rev() {
            for server in 0..plan.servers {
                left.push(Move {
                    machine: number * plan.servers + server,
                    replaces: (number >= REPLICAS).then(|| rng.random_range(0..REPLICAS as u32)),
                    wait: rng.random_range(0..80),
                });
            }
        }
        Moves { left, cluster }
    }

    /// Asks for the next move, if it is due.
    async fn step(&mut self, volume: &Volume, state: &State) {
        let Some(next) = self.left.last_mut() else {
            return;
        };
        if next.wait > 0 {
            next.wait -= 1;
            return;
        }
        let request = weft_client::JoinServerRequest {
            replaces: next.replaces,
            ..self.cluster.joining(next.machine)
        };
        // What the map said until now may not be true any more.
        state.lock().primaries.fill(None);
        if volume.join_server(request).await.is_ok() {
            self.left.pop();
        }
    }
}

/// Looks at the server map, so that faults can be chosen that the design promises to survive.
async fn watch(state: State, options: ConnectOptions, mut moves: Moves) -> Result<(), Error> {
    let volume = loop {
        match Volume::connect(options.clone()).await {
            Ok(volume) => break volume,
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    };
    while !state.lock().ended {
        if let Ok(map) = volume.server_map().await {
            let servers = map.servers.len();
            let primaries = map.servers.iter().map(|server| {
                let present = server
                    .replicas
                    .iter()
                    .all(|r| r.in_sync && r.up && !r.leaving);
                let whole = present && server.replicas.len() == REPLICAS;
                let primary = server.replicas.iter().find(|r| r.primary)?;
                whole.then(|| primary.number as usize * servers + server.id as usize)
            });
            state.lock().primaries = primaries.collect();
        } else {
            let mut state = state.lock();
            state.primaries.fill(None);
        }
        moves.step(&volume, &state).await;
        state.lock().moving = !moves.left.is_empty();
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

struct Client {
    number: usize,
    plan: Plan,
    state: State,
    rng: SmallRng,
}

impl Client {
    async fn run(mut self, options: ConnectOptions) -> Result<(), Error> {
        let volume = loop {
            match Volume::connect(options.clone()).await {
                Ok(volume) => break volume,
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        };
        let mut views = Vec::new();
        for file in 0..self.plan.clients {
            views.push(self.open(&volume, file).await?);
        }
        for _ in 0..self.plan.operations {
            let slot = self.rng.random_range(0..SLOTS);
            match self.rng.random_range(0..10) {
                // One only reads: no write that waits at a primary moves it to the next.
                0..5 if self.number > 0 => self.write(&views[self.number], slot).await,
                0..9 => {
                    let file = self.rng.random_range(0..views.len());
                    self.read(&views[file], file, slot).await;
                }
                _ => {
                    let synced = self.call("sync", views[self.number].file().sync()).await;
                    self.state.lock().count("sync", &synced);
                    if let Err(error) = synced {
                        self.must_be_an_outage("sync", &error);
                    }
                }
            }
            sleep(Duration::from_millis(self.rng.random_range(0..400))).await;
        }
        self.state.lock().busy -= 1;
        // Then each replica is the primary once, and must show the same.
        let mut looked = 0;
        loop {
            let (wanted, ended) = {
                let state = self.state.lock();
                (state.look.0, state.ended)
            };
            if ended {
                return Ok(());
            }
            if wanted > looked && self.number == 0 {
                for (file, view) in views.iter().enumerate() {
                    for slot in 0..SLOTS {
                        self.read(view, file, slot).await;
                    }
                }
                looked = wanted;
                self.state.lock().look.1 = looked;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn open(&self, volume: &Volume, file: usize) -> Result<OpenView, Error> {
        let layout = NewLayout {
            cells: Some(self.plan.servers as u32),
            bsu: Some(2 * SLOT as u64),
            chunk: Some(8192),
            servers: (0..self.plan.servers as u32).collect(),
            ..NewLayout::default()
        };
        let access = Access::read_write().create(0o644).layout(&layout);
        loop {
            match volume.attach(&format!("/r{file}"), access.clone()).await {
                Ok(file) => return file.canonical(),
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn call<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if let Ok(result) = timeout(HANGS, call).await {
            return result;
        }
        self.state.lock().note_wrong(format!("a {what} hangs"));
        std::future::pending().await
    }

    /// An error that faults explain; a loss or damage never is one.
    fn must_be_an_outage(&self, what: &str, error: &Error) {
        use weft_proto::Code;
        let lost = matches!(
            error,
            Error::Unreachable { .. } | Error::MayHaveHappened { .. }
        );
        let passing = matches!(
            error.code(),
            Code::StaleMap | Code::Unavailable | Code::Busy
        );
        let outage = lost || passing || what == "sync" && error.code() == Code::Lost;
        if !outage {
            self.state.lock().note_wrong(format!("{what}: {error}"));
        }
    }

    async fn write(&mut self, view: &OpenView, slot: u64) {
        let key = (self.number, slot);
        let version = {
            let mut state = self.state.lock();
            let known = state.slots.entry(key).or_default();
            known.begun += 1;
            known.begun
        };
        let data = content(self.number, slot, version);
        let at = ViewOffset(slot * SLOT as u64);
        let written = self.call("write", view.write_at(at, data)).await;
        self.state.lock().count("write", &written);
        match written {
            Ok(_) => {
                let mut state = self.state.lock();
                let known = state.slots.entry(key).or_default();
                known.least = known.least.max(version);
            }
            Err(error) => self.must_be_an_outage("write", &error),
        }
    }

    async fn read(&mut self, view: &OpenView, file: usize, slot: u64) {
        let least = {
            let state = self.state.lock();
            state
                .slots
                .get(&(file, slot))
                .map_or(0, |known| known.least)
        };
        let mut found = vec![0; SLOT];
        let at = ViewOffset(slot * SLOT as u64);
        let read = self.call("read", view.read_at(at, &mut found)).await;
        let mut state = self.state.lock();
        state.count("read", &read);
        if let Err(error) = read {
            drop(state);
            return self.must_be_an_outage("read", &error);
        }
        let known = state.slots.entry((file, slot)).or_default();
        let version = u64::from_le_bytes(found[..8].try_into().unwrap_or_default());
        let whole = version == 0 && found.iter().all(|byte| *byte == 0)
            || found == content(file, slot, version);
        let begun = known.begun;
        if whole && (least..=begun).contains(&version) {
            known.least = known.least.max(version);
            return;
        }
        state.note_wrong(format!(
            "file {file} slot {slot} shows version {version} (whole: {whole}), not {least} to {begun}"
        ));
    }
}

/// What is broken at the moment.
enum Present {
    Machine(usize),
    Meta,
    /// These hosts do not hear each other.
    Cut(Vec<(String, String)>),
    /// Messages between these hosts arrive when it is over.
    Late(Vec<(String, String)>),
}

/// Nothing else may fail at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Alone;

/// Where a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Faults,
    /// Until all replicas are in sync; then this look.
    Calm(u32),
    Look(u32),
}

struct Faults {
    rng: SmallRng,
    left: usize,
    wait: u32,
    present: Vec<Present>,
    phase: Phase,
    /// Milliseconds in this phase.
    since: u32,
    /// The machines that were killed after a look.
    killed: Vec<usize>,
}

impl Faults {
    fn new(plan: Plan) -> Faults {
        let mut rng = SmallRng::seed_from_u64(plan.seed ^ 0x0046);
        Faults {
            left: plan.faults,
            wait: rng.random_range(2000..5000),
            rng,
            present: Vec::new(),
            phase: Phase::Faults,
            since: 0,
            killed: Vec::new(),
        }
    }

    /// A millisecond has passed.
    fn step(&mut self, sim: &mut Sim<'_>, cluster: &Cluster, state: &State) {
        self.since += 1;
        match self.phase {
            Phase::Faults => self.strike_or_mend(sim, cluster, state),
            Phase::Calm(look) => {
                let mut shared = state.lock();
                let whole = shared.primaries.iter().all(Option::is_some);
                if shared.busy == 0 && whole && !shared.moving {
                    shared.look.0 = look + 1;
                    drop(shared);
                    self.enter(Phase::Look(look + 1));
                } else if u128::from(self.since) > CALM.as_millis() && shared.busy == 0 {
                    shared.note_wrong("not all replicas are in sync after all faults".into());
                }
            }
            Phase::Look(look) => {
                if state.lock().look.1 < look {
                    return;
                }
                for machine in std::mem::take(&mut self.killed) {
                    cluster.revive_server(sim, machine);
                }
                if look > 1 {
                    state.lock().ended = true;
                    return;
                }
                // Every other replica shows what it has.
                let primaries = state.lock().primaries.clone();
                for machine in primaries.into_iter().flatten() {
                    cluster.strike_server(sim, machine, Fault::Kill, 1);
                    self.killed.push(machine);
                }
                state.lock().look.0 = look + 1;
                self.enter(Phase::Look(look + 1));
            }
        }
    }

    fn enter(&mut self, phase: Phase) {
        (self.phase, self.since) = (phase, 0);
    }

    fn strike_or_mend(&mut self, sim: &mut Sim<'_>, cluster: &Cluster, state: &State) {
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        if self.present.is_empty() {
            if self.left == 0 {
                return self.enter(Phase::Calm(0));
            }
            self.left -= 1;
            let count = self.rng.random_range(1..=2);
            for _ in 0..count {
                // What a machine without power has lost is only promised if the others are there.
                if self.strike(sim, cluster, state) == Some(Alone) {
                    break;
                }
            }
            // Shorter and longer than a takeover takes, and than calls wait at a primary.
            self.wait = self.rng.random_range(50..16_000);
            return;
        }
        for present in std::mem::take(&mut self.present) {
            match present {
                Present::Machine(machine) => cluster.revive_server(sim, machine),
                Present::Meta => cluster.revive_meta(sim),
                Present::Cut(links) => {
                    for (one, other) in links {
                        sim.repair(one, other);
                    }
                }
                Present::Late(links) => {
                    for (one, other) in links {
                        sim.release(one, other);
                    }
                }
            }
        }
        self.wait = self.rng.random_range(20..6000);
    }

    fn strike(&mut self, sim: &mut Sim<'_>, cluster: &Cluster, state: &State) -> Option<Alone> {
        let whole: Vec<bool> = {
            let shared = state.lock();
            shared.primaries.iter().map(Option::is_some).collect()
        };
        let machine = self.rng.random_range(0..cluster.machines());
        let struck = |p: &Present| matches!(p, Present::Machine(m) if *m == machine);
        let alone = self.present.is_empty();
        let kind = match self.rng.random_range(0..10) {
            0..3 if !self.present.iter().any(struck) => {
                let dice = self.rng.random();
                cluster.strike_server(sim, machine, Fault::Kill, dice);
                self.present.push(Present::Machine(machine));
                "replica killed"
            }
            3 if alone && whole[machine % cluster.servers()] => {
                let dice = self.rng.random();
                cluster.strike_server(sim, machine, Fault::PowerLoss, dice);
                self.present.push(Present::Machine(machine));
                "replica without power"
            }
            4 if alone && whole[machine % cluster.servers()] => {
                cluster.empty_machine(sim, machine, self.rng.random());
                self.present.push(Present::Machine(machine));
                "replica emptied"
            }
            5 if alone => {
                cluster.strike_meta(sim, Fault::Kill);
                self.present.push(Present::Meta);
                "service killed"
            }
            6..8 if alone => {
                let links = self.links(cluster, machine);
                for (one, other) in &links {
                    sim.partition(one.clone(), other.clone());
                }
                self.present.push(Present::Cut(links));
                "replica cut off"
            }
            8.. if alone => {
                let links = self.links(cluster, machine);
                for (one, other) in &links {
                    sim.hold(one.clone(), other.clone());
                }
                self.present.push(Present::Late(links));
                "messages late"
            }
            _ => return None,
        };
        *state.lock().outcome.faults.entry(kind).or_default() += 1;
        matches!(kind, "replica without power" | "replica emptied").then_some(Alone)
    }

    /// Between a machine and others: the other replicas, the service, or all.
    fn links(&mut self, cluster: &Cluster, machine: usize) -> Vec<(String, String)> {
        let here = Cluster::server_host(machine);
        let mut others: Vec<String> = (0..cluster.machines())
            .filter(|other| *other != machine)
            .map(Cluster::server_host)
            .collect();
        match self.rng.random_range(0..5) {
            0 => {}
            1 => others = vec![Cluster::META_HOST.to_owned()],
            _ => others.push(Cluster::META_HOST.to_owned()),
        }
        others
            .into_iter()
            .map(|other| (here.clone(), other))
            .collect()
    }
}
