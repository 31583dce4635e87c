//! The seams of `weft-net` inside a simulation.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use turmoil::net::{TcpListener, TcpStream};
use weft_net::{BoxRead, BoxWrite, Entropy, Env, Listener, Network, Timing, WallClock};

/// Byte streams of the simulated network.
#[derive(Clone, Copy, Debug)]
pub struct SimNetwork;

fn halves(stream: TcpStream) -> (BoxRead, BoxWrite) {
    let (read, write) = stream.into_split();
    (Box::new(read), Box::new(write))
}

impl Network for SimNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<(BoxRead, BoxWrite)>> {
        async move { Ok(halves(TcpStream::connect(address).await?)) }.boxed()
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        async move {
            let listener = TcpListener::bind(address).await?;
            Ok(Box::new(SimListener(listener)) as Box<dyn Listener>)
        }
        .boxed()
    }
}

struct SimListener(TcpListener);

impl Listener for SimListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxRead, BoxWrite, String)>> {
        async move {
            let (stream, peer) = self.0.accept().await?;
            let (read, write) = halves(stream);
            Ok((read, write, peer.to_string()))
        }
        .boxed()
    }

    fn address(&self) -> io::Result<String> {
        Ok(self.0.local_addr()?.to_string())
    }
}

/// The simulation's time of day.
#[derive(Clone, Copy, Debug)]
pub struct SimWallClock;

impl WallClock for SimWallClock {
    fn now(&self) -> i64 {
        let since = turmoil::sim_elapsed().unwrap_or_default();
        1_700_000_000_000_000_000 + since.as_nanos() as i64
    }
}

/// Randomness that follows from a seed.
#[derive(Debug)]
pub struct SimEntropy(Mutex<SmallRng>);

impl SimEntropy {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> SimEntropy {
        SimEntropy(Mutex::new(SmallRng::seed_from_u64(seed)))
    }
}

impl Entropy for SimEntropy {
    fn fill(&self, out: &mut [u8]) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fill_bytes(out);
    }
}

/// Everything outside a simulated process.
pub fn env(seed: u64) -> Env {
    Env {
        network: Arc::new(SimNetwork),
        clock: Arc::new(SimWallClock),
        entropy: Arc::new(SimEntropy::new(seed)),
        timing: Timing::default(),
    }
}
