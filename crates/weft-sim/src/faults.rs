//! Faults between the steps of a simulation, one at a time: each is repaired before the next.

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use turmoil::Sim;

use crate::cluster::{Cluster, Fault};
use crate::oracle::Time;
use crate::plan::Plan;
use crate::state::State;

pub(crate) struct Faults {
    rng: SmallRng,
    clients: usize,
    /// Whether one client's process dies.
    mortal: bool,
    rot: bool,
    left: usize,
    /// Milliseconds until the next fault, or until the present one is mended.
    wait: u32,
    present: Option<Present>,
}

/// What a step of the faults was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Struck {
    /// The metadata service died, perhaps with its machine's power.
    Service { power: bool },
    /// This client was cut off from the metadata service.
    Client(usize),
    /// Nothing between clients and the metadata service.
    Elsewhere,
    /// The last fault is repaired.
    Mended,
}

enum Present {
    Server(usize),
    /// Nothing that can be mended.
    Rot,
    Meta(Fault),
    /// The crashing client has no process.
    Client,
    /// Between these two hosts.
    Link(String, String),
    /// Between this client and the metadata service.
    ClientLink(usize),
}

impl Present {
    fn struck(&self) -> Struck {
        match self {
            Present::Meta(fault) => Struck::Service {
                power: *fault == Fault::PowerLoss,
            },
            Present::ClientLink(client) => Struck::Client(*client),
            _ => Struck::Elsewhere,
        }
    }
}

impl Faults {
    pub(crate) fn new(plan: Plan) -> Faults {
        let mut rng = SmallRng::seed_from_u64(plan.seed ^ 0xfa17);
        let wait = rng.random_range(50..600);
        Faults {
            rng,
            clients: plan.clients,
            mortal: true,
            rot: plan.rot,
            left: plan.faults,
            wait,
            present: None,
        }
    }

    /// As [`Faults::new`], where others end the processes of clients.
    pub(crate) fn of_mounts(plan: Plan) -> Faults {
        Faults {
            mortal: false,
            ..Faults::new(plan)
        }
    }

    /// A millisecond has passed.
    pub(crate) fn step(
        &mut self,
        sim: &mut Sim<'_>,
        cluster: &Cluster,
        state: &State,
    ) -> Option<Struck> {
        let wanted = state.lock().rot_wanted.take();
        if let Some((server, bytes)) = wanted {
            let places = cluster.rot_bytes(server, &bytes);
            let mut state = state.lock();
            state.rotten |= places > 0;
            state.rot_placed = Some(places);
        }
        if self.wait > 0 {
            self.wait -= 1;
            return None;
        }
        match self.present.take() {
            Some(Present::Server(server)) => cluster.revive_server(sim, server),
            Some(Present::Rot) => {}
            Some(Present::Meta(_)) => cluster.revive_meta(sim),
            Some(Present::Client) => cluster.revive_mortal(sim, self.clients),
            Some(Present::Link(one, other)) => sim.repair(one, other),
            Some(Present::ClientLink(client)) => {
                sim.repair(Cluster::client_host(client), Cluster::META_HOST);
            }
            None if self.left > 0 => {
                self.left -= 1;
                let (kind, present) = self.strike(sim, cluster, state);
                *state.lock().outcome.faults.entry(kind).or_default() += 1;
                let struck = present.struck();
                self.present = Some(present);
                self.wait = self.rng.random_range(20..1500);
                return Some(struck);
            }
            None => {
                let now = time(sim);
                state.lock().calm.get_or_insert(now);
                return None;
            }
        }
        self.wait = self.rng.random_range(50..1000);
        Some(Struck::Mended)
    }

    fn strike(
        &mut self,
        sim: &mut Sim<'_>,
        cluster: &Cluster,
        state: &State,
    ) -> (&'static str, Present) {
        let server = self.rng.random_range(0..cluster.servers());
        let power = self.rng.random();
        let fault = if power { Fault::PowerLoss } else { Fault::Kill };
        if self.rot && self.rng.random_ratio(1, 3) {
            return self.rot(sim, cluster, server, state);
        }
        match self.rng.random_range(0..8) {
            7 if self.mortal => {
                cluster.strike_mortal(sim, self.clients);
                ("client killed", Present::Client)
            }
            0 | 7 => {
                cluster.strike_meta(sim, fault);
                let kind = match fault {
                    Fault::Kill => "metadata service killed",
                    Fault::PowerLoss => "metadata service without power",
                };
                (kind, Present::Meta(fault))
            }
            1..=3 => self.cut(sim, (server, cluster.servers())),
            _ => {
                cluster.strike_server(sim, server, fault, self.rng.next_u64());
                let kind = match fault {
                    Fault::Kill => "server killed",
                    Fault::PowerLoss => {
                        let now = time(sim);
                        state.lock().losses.note(server, now);
                        "server without power"
                    }
                };
                (kind, Present::Server(server))
            }
        }
    }

    /// Changes bits of a server's disk; half of the time the server forgets what it has in memory.
    fn rot(
        &mut self,
        sim: &mut Sim<'_>,
        cluster: &Cluster,
        server: usize,
        state: &State,
    ) -> (&'static str, Present) {
        for _ in 0..self.rng.random_range(1..4) {
            let flipped = cluster.rot(server, self.rng.next_u64());
            state.lock().rotten |= flipped;
        }
        if self.rng.random() {
            return ("rot", Present::Rot);
        }
        cluster.strike_server(sim, server, Fault::Kill, self.rng.next_u64());
        ("rot, and server killed", Present::Server(server))
    }

    /// Cuts a link of any kind that a volume has.
    fn cut(
        &mut self,
        sim: &mut Sim<'_>,
        (server, servers): (usize, usize),
    ) -> (&'static str, Present) {
        let number = self.rng.random_range(0..=self.clients);
        let client = Cluster::client_host(number);
        let next = Cluster::server_host((server + 1) % servers);
        let server = Cluster::server_host(server);
        let meta = Cluster::META_HOST.to_owned();
        let (kind, one, other) = match self.rng.random_range(0..7) {
            0..=1 => ("client cut off from server", client, server),
            2..=3 => {
                sim.partition(client, meta);
                let kind = "client cut off from metadata service";
                return (kind, Present::ClientLink(number));
            }
            4..=5 => ("server cut off from metadata service", server, meta),
            // Only copies go this way.
            _ => ("server cut off from server", server, next),
        };
        sim.partition(one.clone(), other.clone());
        (kind, Present::Link(one, other))
    }
}

fn time(sim: &Sim<'_>) -> Time {
    sim.elapsed().as_nanos() as Time
}
