//! The seams of `weft-net` inside a simulation.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::Sim;
use turmoil::net::{TcpListener, TcpStream};
use weft_net::{
    Accepted, BoxRead, BoxWrite, Entropy, Env, Listener, Network, Opened, Timing,
    UnmanagedProcessors, WallClock,
};

fn lock<T: ?Sized>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A digest of what arrives at the hosts of a simulation, and when. Clones share it.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<DefaultHasher>>);

impl Heard {
    /// The digest so far.
    pub fn digest(&self) -> u64 {
        lock(&self.0).finish()
    }

    fn note(&self, half: u64, bytes: &[u8]) {
        (turmoil::sim_elapsed(), half, bytes).hash(&mut *lock(&self.0));
    }
}

/// Byte streams of the simulated network, as one host has them open. Clones share them.
#[derive(Clone)]
pub struct SimNetwork(Arc<Streams>);

/// Halves of streams that are open, in the order they were opened.
struct Streams {
    heard: Heard,
    open: Mutex<Open>,
    /// The host's process is being ended.
    dying: AtomicBool,
    /// The run is over.
    over: AtomicBool,
}

#[derive(Default)]
struct Open {
    next: u64,
    halves: BTreeMap<u64, Arc<dyn Close>>,
}

trait Close: Send + Sync {
    fn close(&self);
}

impl<T: Send> Close for Mutex<Option<T>> {
    fn close(&self) {
        let half = lock(self).take();
        drop(half);
    }
}

impl SimNetwork {
    /// The network of a host that tells `heard` what arrives.
    pub fn new(heard: Heard) -> SimNetwork {
        SimNetwork(Arc::new(Streams {
            heard,
            open: Mutex::default(),
            dying: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }))
    }

    /// The run is over: what its processes send while they are dropped is not sent.
    pub fn end(&self) {
        self.0.over.store(true, Ordering::Relaxed);
    }

    /// Ends the process of `host`, whose network this is: its streams end in the order they were
    /// opened.
    ///
    /// Left to itself, each stream ends when its task is dropped, and tokio drops a runtime's tasks
    /// in an order that follows from their ids, which count for all simulations of the test's
    /// process together. Each end draws the delay of its message from the simulation's generator,
    /// so the rest of the run would not follow from the seed.
    pub fn crash(&self, sim: &mut Sim<'_>, host: &str) {
        self.0.dying.store(true, Ordering::Relaxed);
        sim.crash(host);
        self.0.dying.store(false, Ordering::Relaxed);
    }

    fn halves(&self, stream: TcpStream) -> (BoxRead, BoxWrite) {
        let (read, write) = stream.into_split();
        (Box::new(self.half(read)), Box::new(self.half(write)))
    }

    fn half<T: Send + 'static>(&self, half: T) -> Half<T> {
        let half = Arc::new(Mutex::new(Some(half)));
        let mut open = lock(&self.0.open);
        let number = open.next;
        open.next += 1;
        open.halves.insert(number, half.clone());
        Half {
            stream: half,
            number,
            streams: self.0.clone(),
        }
    }
}

impl Streams {
    fn dropped(&self, number: u64) {
        if self.dying.load(Ordering::Relaxed) {
            let halves = std::mem::take(&mut lock(&self.open).halves);
            for half in halves.values() {
                half.close();
            }
        } else {
            let half = lock(&self.open).halves.remove(&number);
            if let Some(half) = half {
                half.close();
            }
        }
    }
}

/// Half of a stream; nothing is left of it when its process has ended.
struct Half<T> {
    stream: Arc<Mutex<Option<T>>>,
    number: u64,
    streams: Arc<Streams>,
}

impl<T: Unpin> Half<T> {
    fn poll<R>(
        &self,
        poll: impl FnOnce(Pin<&mut T>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        match &mut *lock(&self.stream) {
            Some(half) => poll(Pin::new(half)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl<T> Drop for Half<T> {
    fn drop(&mut self) {
        self.streams.dropped(self.number);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Half<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = self.poll(|half| half.poll_read(cx, buffer));
        if polled.is_ready() {
            let arrived = &buffer.filled()[before..];
            self.streams.heard.note(self.number, arrived);
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Half<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // A process that ends by force sends nothing more, although its calls are dropped.
        let streams = &self.streams;
        if streams.dying.load(Ordering::Relaxed) || streams.over.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        }
        self.poll(|half| half.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|half| half.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|half| half.poll_shutdown(cx))
    }
}

impl Network for SimNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        async move {
            let (read, write) = self.halves(TcpStream::connect(address).await?);
            Ok(Opened {
                read,
                write,
                gauge: None,
            })
        }
        .boxed()
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        async move {
            let listener = TcpListener::bind(address).await?;
            let network = self.clone();
            Ok(Box::new(SimListener { listener, network }) as Box<dyn Listener>)
        }
        .boxed()
    }
}

struct SimListener {
    listener: TcpListener,
    network: SimNetwork,
}

impl Listener for SimListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Accepted>> {
        async move {
            let (stream, peer) = self.listener.accept().await?;
            let (read, write) = self.network.halves(stream);
            Ok(Accepted {
                read,
                write,
                peer: peer.to_string(),
                local: false,
                process: None,
            })
        }
        .boxed()
    }

    fn address(&self) -> io::Result<String> {
        Ok(self.listener.local_addr()?.to_string())
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
        lock(&self.0).fill_bytes(out);
    }
}

/// Everything outside a simulated process on the host of `network`.
pub fn env(seed: u64, network: SimNetwork) -> Env {
    Env {
        network: Arc::new(network),
        clock: Arc::new(SimWallClock),
        entropy: Arc::new(SimEntropy::new(seed)),
        timing: Timing::default(),
        processors: Arc::new(UnmanagedProcessors),
    }
}
