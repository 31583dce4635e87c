//! A run from a seed: one client writes, reads, syncs and changes names while nodes die and links break; then
//! everything heals, and what is there must be explained by what was acknowledged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use turmoil::{Builder, Sim};
use weft_client::{Access, Error, File, NewLayout, Volume};
use weft_layout::{FileOffset, Grid, Order, Subfile, View, ViewOffset};
use weft_proto::Code;

use crate::cluster::{Cluster, Fault};
use crate::oracle::Oracle;

/// What a run does.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Everything follows from it.
    pub seed: u64,
    /// I/O servers.
    pub servers: usize,
    /// Operations of the client.
    pub operations: usize,
    /// Faults while it works.
    pub faults: usize,
    /// A defect on purpose: the oracle is told of writes that were never sent. A checker that does not see it is
    /// blind.
    pub canary: bool,
}

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Operations that were acknowledged.
    pub acknowledged: usize,
    /// Operations that failed, as they may under faults.
    pub failed: usize,
    /// A digest of everything the client saw: the same seed gives the same.
    pub digest: u64,
    /// A digest of all that went over the network, and when: it tells runs apart that the client sees alike.
    pub network: u64,
    /// The first thing that nothing explains.
    pub wrong: Option<String>,
}

const LENGTH: usize = 48 << 10;
const BSU: u64 = 1000;
const CELLS: u32 = 5;

struct Shared {
    oracle: Oracle,
    outcome: Outcome,
    /// No more faults come: everything must succeed now.
    calm: bool,
    grid: Grid,
}

type State = Arc<Mutex<Shared>>;

fn lock(state: &State) -> std::sync::MutexGuard<'_, Shared> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a plan.
///
/// # Panics
/// When the simulation itself fails: a node cannot start, or the client does not end in time.
pub fn run(plan: Plan) -> Outcome {
    let cluster = Cluster::new(plan.seed, plan.servers);
    let mut sim = Builder::new()
        .rng_seed(plan.seed)
        .simulation_duration(Duration::from_mins(10))
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::from_micros(100))
        .max_message_latency(Duration::from_millis(5))
        .tcp_capacity(1 << 16)
        .build();
    cluster.start(&mut sim);
    let state = Arc::new(Mutex::new(Shared {
        oracle: Oracle::new(LENGTH),
        outcome: Outcome::default(),
        calm: plan.faults == 0,
        grid: Grid::new(CELLS, BSU, plan.servers.min(CELLS as usize) as u32).expect("legal"),
    }));
    let options = cluster.client();
    let client_state = state.clone();
    sim.client("client", async move {
        let mut client = Client {
            plan,
            state: client_state,
            rng: SmallRng::seed_from_u64(plan.seed),
        };
        client
            .run(options)
            .await
            .map_err(|e| format!("seed {}: {e}", plan.seed).into())
    });
    let mut faults = Faults::new(plan);
    loop {
        let ended = sim
            .step()
            .unwrap_or_else(|e| panic!("seed {}: {e}", plan.seed));
        if ended {
            break;
        }
        faults.step(&mut sim, &cluster, &state);
    }
    let outcome = lock(&state).outcome.clone();
    Outcome {
        network: cluster.heard().digest(),
        ..outcome
    }
}

/// Places faults between steps of the simulation.
struct Faults {
    rng: SmallRng,
    left: usize,
    /// Milliseconds until the next fault, or until the present one is mended.
    wait: u32,
    present: Option<Present>,
}

enum Present {
    Server(usize),
    Meta,
    Link(usize),
}

impl Faults {
    fn new(plan: Plan) -> Faults {
        let mut rng = SmallRng::seed_from_u64(plan.seed ^ 0xfa17);
        let wait = rng.random_range(50..600);
        Faults {
            rng,
            left: plan.faults,
            wait,
            present: None,
        }
    }

    fn step(&mut self, sim: &mut Sim<'_>, cluster: &Cluster, state: &State) {
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        match self.present.take() {
            Some(Present::Server(server)) => cluster.revive_server(sim, server),
            Some(Present::Meta) => cluster.revive_meta(sim),
            Some(Present::Link(server)) => cluster.mend(sim, "client", server),
            None if self.left > 0 => {
                self.left -= 1;
                self.present = Some(self.strike(sim, cluster, state));
                self.wait = self.rng.random_range(20..1500);
                return;
            }
            None => {
                lock(state).calm = true;
                return;
            }
        }
        self.wait = self.rng.random_range(50..1000);
    }

    fn strike(&mut self, sim: &mut Sim<'_>, cluster: &Cluster, state: &State) -> Present {
        let server = self.rng.random_range(0..cluster.servers());
        let fault = if self.rng.random() {
            Fault::Kill
        } else {
            Fault::PowerLoss
        };
        match self.rng.random_range(0..5) {
            0 => {
                cluster.strike_meta(sim, fault);
                Present::Meta
            }
            1 => {
                cluster.partition(sim, "client", server);
                Present::Link(server)
            }
            _ => {
                cluster.strike_server(sim, server, fault, self.rng.next_u64());
                if fault == Fault::PowerLoss {
                    let mut state = lock(state);
                    let grid = state.grid;
                    // Layout and server ids are in order here: slot i is server i.
                    state.oracle.power_lost(|at| {
                        let cell = grid.locate(FileOffset(at as u64)).expect("in range").0;
                        grid.slot_of(cell).0 as usize == server
                    });
                }
                Present::Server(server)
            }
        }
    }
}

struct Client {
    plan: Plan,
    state: State,
    rng: SmallRng,
}

impl Client {
    async fn run(&mut self, options: weft_client::ConnectOptions) -> Result<(), String> {
        let volume = loop {
            match Volume::connect(options.clone()).await {
                Ok(volume) => break volume,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        let layout = NewLayout {
            cells: Some(CELLS),
            bsu: Some(BSU),
            chunk: Some(4096 + 512),
            servers: (0..self.plan.servers as u32).collect(),
            base: None,
        };
        let file = loop {
            let access = Access::read_write().create(0o644).layout(&layout);
            match volume.attach("/file", access).await {
                Ok(file) => break file,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        let mut names = Names::default();
        for _ in 0..self.plan.operations {
            self.operation(&volume, &file, &mut names).await;
            let pause = self.rng.random_range(0..30);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        while !lock(&self.state).calm {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Liveness: the failure detection time after the last fault everything works again.
        tokio::time::sleep(Duration::from_secs(7)).await;
        self.read(&file, 0, LENGTH)
            .await
            .map_err(|e| format!("after healing: {e}"))?;
        file.sync()
            .await
            .map_err(|e| format!("after healing: {e}"))?;
        names
            .check(&volume, &self.state)
            .await
            .map_err(|e| format!("after healing: {e}"))?;
        file.close()
            .await
            .map_err(|e| format!("after healing: {e}"))?;
        Ok(())
    }

    async fn operation(&mut self, volume: &Volume, file: &File, names: &mut Names) {
        let done = match self.rng.random_range(0..10) {
            0..=4 => self.write(file).await,
            5..=6 => {
                let at = self.rng.random_range(0..LENGTH);
                let length = self.rng.random_range(0..=(LENGTH - at).min(20_000));
                self.read(file, at, length).await
            }
            7 => self.sync(file).await,
            _ => names.change(volume, &mut self.rng).await,
        };
        let mut state = lock(&self.state);
        match done {
            Ok(()) => state.outcome.acknowledged += 1,
            Err(_) => state.outcome.failed += 1,
        }
    }

    async fn write(&mut self, file: &File) -> Result<(), Error> {
        let at = self.rng.random_range(0..LENGTH);
        let most = if self.rng.random() { 300 } else { 20_000 };
        let mut data = vec![0; self.rng.random_range(0..=(LENGTH - at).min(most))];
        self.rng.fill_bytes(&mut data);
        if self.plan.canary {
            lock(&self.state).oracle.acknowledged(at, &data);
            return Ok(());
        }
        // Until it is answered it may have happened; power loss in between knows of it, too.
        let before = lock(&self.state).oracle.clone();
        lock(&self.state).oracle.uncertain(at, &data);
        let view = file.canonical()?;
        let result = view
            .write_at(ViewOffset(at as u64), Bytes::from(data.clone()))
            .await;
        let mut state = lock(&self.state);
        match &result {
            Ok(_) => state.oracle.acknowledged_during(at, &data, &before),
            Err(
                Error::Refused { .. } | Error::Unreachable { .. } | Error::MayHaveHappened { .. },
            ) => {}
            Err(e) => state.note_wrong(format!("write at {at}: {e}")),
        }
        result.map(|_| ())
    }

    async fn read(&mut self, file: &File, at: usize, length: usize) -> Result<(), Error> {
        // The same bytes through two views: the canonical order is one subfile of one row of cells.
        let row = Subfile {
            vbs: 1,
            vn: 1,
            hbs: u64::from(CELLS),
            hn: 1,
            index: 0,
            order: Order::Row,
        };
        let view = if self.rng.random() {
            View::canonical()
        } else {
            View::Subfile(row)
        };
        let mut buffer = vec![0; length];
        file.view(view)?
            .read_at(ViewOffset(at as u64), &mut buffer)
            .await?;
        let mut state = lock(&self.state);
        if let Some((at, value, allowed)) = state.oracle.check(at, &buffer) {
            state.note_wrong(format!(
                "byte {at} is {value}, but may only be one of {allowed:?}"
            ));
        }
        for chunk in buffer.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let digest = &mut state.outcome.digest;
            *digest = digest.rotate_left(5).wrapping_mul(0x517c_c1b7_2722_0a95)
                ^ u64::from_le_bytes(word);
        }
        Ok(())
    }

    async fn sync(&mut self, file: &File) -> Result<(), Error> {
        file.sync().await?;
        lock(&self.state).oracle.synced();
        Ok(())
    }
}

impl Shared {
    fn note_wrong(&mut self, what: String) {
        self.outcome.wrong.get_or_insert(what);
    }
}

/// Names that must, may or must not be there.
#[derive(Default)]
struct Names(BTreeMap<String, Option<bool>>);

impl Names {
    async fn change(&mut self, volume: &Volume, rng: &mut SmallRng) -> Result<(), Error> {
        let name = format!("/name-{}", rng.random_range(0..6));
        let create: bool = rng.random();
        let result = if create {
            volume.make_directory(&name, 0o755).await.map(|_| ())
        } else {
            volume.remove_directory(&name).await.map(drop)
        };
        let certain = match &result {
            Ok(()) => Some(create),
            Err(e) if e.code() == Code::Exists => Some(true),
            Err(e) if e.code() == Code::NotFound => Some(false),
            Err(Error::Unreachable { .. }) => return result,
            Err(_) => None,
        };
        self.0.insert(name, certain);
        result
    }

    async fn check(&self, volume: &Volume, state: &State) -> Result<(), Error> {
        let there: Vec<String> = volume
            .list("/")
            .all()
            .await?
            .iter()
            .map(|e| format!("/{}", String::from_utf8_lossy(&e.name)))
            .collect();
        for (name, certain) in &self.0 {
            if let Some(expected) = certain
                && there.contains(name) != *expected
            {
                lock(state).note_wrong(format!(
                    "{name}: expected there = {expected}, found {there:?}"
                ));
            }
        }
        Ok(())
    }
}
