//! The hosts of clients. On some of them processes die; on the others one process runs to its end.

use turmoil::Sim;
use weft_client::{ConnectOptions, Credentials, SpreadReads};
use weft_net::Env;
use weft_referee::Recorder;

use super::{Cluster, KEY, PORT, VOLUME, life_env};
use crate::net::{SimNetwork, env};

impl Cluster {
    /// The host of a client.
    pub fn client_host(client: usize) -> String {
        format!("client-{client}")
    }

    /// How a client in the simulation connects.
    pub fn client(&self, client: usize) -> ConnectOptions {
        let seed = self.seed ^ 0xc11e ^ (client as u64) << 48;
        let env = env(seed, SimNetwork::new(self.heard.clone()));
        options(env, &self.history)
    }

    /// Adds a client whose process dies. The next process is another client to the volume.
    pub fn start_mortal<L>(
        &self,
        sim: &mut Sim<'_>,
        client: usize,
        live: impl Fn(ConnectOptions) -> L + 'static,
    ) where
        L: Future<Output = Result<(), String>> + 'static,
    {
        let (lives, network) = (self.lives.clone(), SimNetwork::new(self.heard.clone()));
        self.mortal().insert(client, network.clone());
        let history = self.history.clone();
        sim.host(Cluster::client_host(client), move || {
            let live = live(options(life_env(&lives, &network), &history));
            async move { Ok(live.await?) }
        });
    }

    /// Ends the process of a client that [`Cluster::start_mortal`] added.
    pub fn strike_mortal(&self, sim: &mut Sim<'_>, client: usize) {
        let network = self.mortal().get(&client).cloned();
        if let Some(network) = network {
            network.crash(sim, &Cluster::client_host(client));
        }
    }

    /// Starts its next process.
    pub fn revive_mortal(&self, sim: &mut Sim<'_>, client: usize) {
        sim.bounce(Cluster::client_host(client));
    }
}

fn options(env: Env, history: &Recorder) -> ConnectOptions {
    let mut options = ConnectOptions::new(format!("{}:{PORT}", Cluster::META_HOST), KEY);
    options.volume = VOLUME;
    options.who = Credentials::default();
    options.env = env;
    options.history = Some(history.clone());
    // What one replica has shown, the next one must show, too.
    options.spread_reads = SpreadReads { least: 1, step: 0 };
    options
}
