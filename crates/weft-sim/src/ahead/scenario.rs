//! A run from a seed: clients work ahead of the service and die, one fault after the other comes
//! beside that; then everything heals, and the oracle judges what is there.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use turmoil::Sim;

use super::judge::judge;
use super::life::live;
use super::shared::Shared;
use crate::cluster::{Cluster, simulation};
use crate::faults::{Faults, Struck};
use crate::oracle::Time;
use crate::plan::Plan;
use crate::state::Outcome;

/// Runs a plan with clients that work ahead, until its end or until something is wrong.
pub fn run_ahead(plan: Plan) -> Outcome {
    let cluster = Cluster::new(plan.seed, plan.servers, plan.canary);
    let mut sim = simulation(plan.seed, Duration::from_mins(20));
    cluster.start(&mut sim);
    let shared = Shared::new(plan);
    for client in 0..plan.clients {
        let shared = shared.clone();
        cluster.start_mortal(&mut sim, client, move |options| {
            live(shared.clone(), client, options)
        });
    }
    let (options, judged) = (cluster.client(plan.clients), shared.clone());
    sim.client(Cluster::client_host(plan.clients), async move {
        Ok(judge(judged, options).await?)
    });
    let mut faults = Faults::of_mounts(plan);
    let mut deaths = Deaths::new(plan);
    loop {
        match sim.step() {
            Ok(false) => {}
            Ok(true) => break,
            Err(error) => shared.state.lock().note_wrong(error.to_string()),
        }
        if let Some(wrong) = shared.names().wrong.take() {
            shared.state.lock().note_wrong(wrong);
        }
        if shared.state.lock().outcome.wrong.is_some() {
            break;
        }
        deaths.step(&mut sim, &cluster, &shared);
        let now = time(&sim);
        match faults.step(&mut sim, &cluster, &shared.state) {
            Some(Struck::Service { power }) => {
                let mut names = shared.names();
                if power {
                    names.power_lost(now);
                }
                names.processes().disturb(None, now);
            }
            Some(Struck::Client(client)) => shared.names().processes().disturb(Some(client), now),
            Some(Struck::Elsewhere) | None => {}
            Some(Struck::Mended) => shared.names().processes().mended(),
        }
    }
    cluster.end();
    if let Some(wrong) = shared.names().wrong.take() {
        shared.state.lock().note_wrong(wrong);
    }
    let mut outcome = shared.state.lock().outcome.clone();
    for (kind, count) in shared.names().counts() {
        outcome.operations.entry(kind).or_default().acknowledged = *count;
    }
    Outcome {
        network: cluster.heard().digest(),
        ..outcome
    }
}

/// Ends processes that have reached their last step, and starts the next ones.
struct Deaths {
    rng: SmallRng,
    /// Clients without a process, and for how many milliseconds more.
    dead: Vec<(usize, u32)>,
}

impl Deaths {
    fn new(plan: Plan) -> Deaths {
        Deaths {
            rng: SmallRng::seed_from_u64(plan.seed ^ 0xdead5),
            dead: Vec::new(),
        }
    }

    /// A millisecond has passed.
    fn step(&mut self, sim: &mut Sim<'_>, cluster: &Cluster, shared: &Shared) {
        for client in shared.take_doomed() {
            cluster.strike_mortal(sim, client);
            shared.names().died(client, time(sim));
            let mut state = shared.state.lock();
            *state.outcome.faults.entry("client killed").or_default() += 1;
            self.dead.push((client, self.rng.random_range(1..500)));
        }
        for (_, wait) in &mut self.dead {
            *wait -= 1;
        }
        self.dead.retain(|(client, wait)| {
            if *wait == 0 {
                cluster.revive_mortal(sim, *client);
            }
            *wait > 0
        });
    }
}

fn time(sim: &Sim<'_>) -> Time {
    sim.elapsed().as_nanos() as Time
}
