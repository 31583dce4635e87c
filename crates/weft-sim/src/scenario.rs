//! A run from a seed: clients work while nodes die and links break; then all faults are repaired,
//! and the acknowledged operations must explain what the volume holds.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use weft_referee::check;

use crate::client::{Client, CrashingClient};
use crate::cluster::{Cluster, simulation};
use crate::faults::Faults;
use crate::plan::Plan;
use crate::state::{Outcome, State};

/// Runs a plan, until its end or until something is wrong. It is wrong, too, if a node cannot start
/// or the clients do not end in time.
pub fn run(plan: Plan) -> Outcome {
    let cluster = Cluster::new(plan.seed, plan.servers, plan.canary);
    let mut sim = simulation(plan.seed, Duration::from_mins(10));
    cluster.start(&mut sim);
    let state = State::new(plan.servers, plan.clients);
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
    let crashing = CrashingClient::new(plan, &state);
    cluster.start_mortal(&mut sim, plan.clients, move |options| {
        crashing.clone().live(options)
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
    let judged = check(&cluster.history_of("/ordered"));
    if let Some(finding) = judged.findings.first() {
        state.lock().note_wrong(finding.text.clone());
    }
    state.lock().outcome.judged = judged.in_order;
    let outcome = state.lock().outcome.clone();
    Outcome {
        network: cluster.heard().digest(),
        ..outcome
    }
}
