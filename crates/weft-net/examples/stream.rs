//! What framing costs, and what the protection of frames does: one connection streaming 256 KiB
//! frames over loopback, with each setting of `wire` and through a local socket, next to a plain
//! TCP stream with buffers of the same size. Two threads with a runtime each, as two processes on a
//! machine would be. The CPU column is the time of both sides together: on a busy machine it says
//! more than the rate.
//!
//! `cargo run --release -p weft-net --example stream [GIBIBYTES [ROUNDS]]`

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weft_net::{
    Bounds, BufferPool, Connection, Counters, Env, Identity, Peer, Served, Service, TcpNetwork,
    VolumeKey, Wire,
};
use weft_proto::Kind;
use weft_proto::io::{ReadReply, ReadRequest, WriteReply, WriteRequest};
use weft_proto::session::Role;

const FRAME: usize = 256 << 10;

/// Streams zeros down and swallows what comes up.
struct Streams {
    frames: usize,
    data: Bytes,
}

impl Service for Streams {
    fn serve(self: Arc<Self>, mut call: Served) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if call.kind == Kind::Read {
                let head = call
                    .reply
                    .head(&ReadReply::default(), Vec::new(), false)
                    .await;
                head.expect("the client listens");
                for i in 1..=self.frames {
                    let sent = call.reply.data(vec![self.data.clone()], i == self.frames);
                    sent.await.expect("the client listens");
                }
            } else {
                let mut bytes = 0;
                while let Some(chunk) = call.payload.next().await {
                    bytes += chunk.len() as u64;
                    drop(chunk);
                    call.payload.release();
                }
                call.reply.done(&WriteReply {
                    bytes,
                    ..WriteReply::default()
                });
            }
        })
    }
    fn is_brief(&self, _kind: Kind) -> bool {
        false
    }
    fn opened(&self, _peer: &Arc<Peer>) {}
    fn closed(&self, _peer: &Arc<Peer>) {}
}

fn identity(wire: Wire) -> Identity {
    Identity {
        key: VolumeKey([7; 32]),
        volume: [9; 16],
        role: Role::Client,
        client: 1,
        wire,
    }
}

/// Runs a server that tells its address in a thread of its own.
fn server<F, R>(serve: F) -> String
where
    F: FnOnce(std::sync::mpsc::Sender<String>) -> R + Send + 'static,
    R: Future<Output = ()>,
{
    let (told, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || runtime().block_on(serve(told)));
    address.recv().expect("the server listens")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

fn plain_server(frames: usize) -> String {
    server(move |told| async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        told.send(listener.local_addr().expect("an address").to_string())
            .expect("somebody asked");
        let data = vec![0; FRAME];
        while let Ok((mut stream, _)) = listener.accept().await {
            for _ in 0..frames {
                stream.write_all(&data).await.expect("the client listens");
            }
        }
    })
}

async fn plain(address: &str, frames: usize) -> Duration {
    let mut stream = TcpStream::connect(address).await.expect("the server");
    let mut buffer = vec![0; FRAME];
    let start = Instant::now();
    for _ in 0..frames {
        stream.read_exact(&mut buffer).await.expect("a buffer");
    }
    start.elapsed()
}

fn weft_server(frames: usize) -> String {
    server(move |told| async move {
        let env = Env::system();
        let listener = env.network.listen("127.0.0.1:0").await.expect("a port");
        told.send(listener.address().expect("an address"))
            .expect("somebody asked");
        let service = Arc::new(Streams {
            frames,
            data: vec![0; FRAME].into(),
        });
        let counters = Arc::new(Counters::default());
        let forever = std::future::pending();
        weft_net::serve(
            env,
            listener,
            identity(Wire::Plain),
            Some(1),
            Bounds::default(),
            service,
            counters,
            forever,
        )
        .await;
    })
}

async fn down(connection: &Connection, frames: usize) -> Duration {
    let start = Instant::now();
    let request = ReadRequest::default();
    let (_, mut incoming) = connection.fetch(&request).await.expect("a stream");
    let mut bytes = 0;
    while let Some(chunk) = incoming.next().await.expect("a frame") {
        bytes += chunk.len();
    }
    assert_eq!(bytes, frames * FRAME);
    start.elapsed()
}

async fn up(connection: &Connection, frames: usize) -> Duration {
    let data = Bytes::from(vec![0; FRAME]);
    let start = Instant::now();
    let request = WriteRequest::default();
    let first = connection.send(&request, vec![data.clone()], frames == 1);
    let mut outgoing = first.await.expect("a stream");
    for i in 2..=frames {
        let sent = outgoing.more(vec![data.clone()], i == frames);
        sent.await.expect("a frame");
    }
    let reply = outgoing.reply().await.expect("a reply");
    assert_eq!(reply.bytes, (frames * FRAME) as u64);
    start.elapsed()
}

/// CPU time of this process so far, from Linux's count of hundredths of seconds.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    Duration::from_millis(10 * ticks.filter_map(|t| t.parse::<u64>().ok()).sum::<u64>())
}

/// The median of each column.
fn median(runs: &[(Duration, Duration)]) -> (Duration, Duration) {
    let middle = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    let (times, cpus) = runs.iter().copied().unzip();
    (middle(times), middle(cpus))
}

async fn connect(address: &str, local: bool, wire: Wire) -> Connection {
    let mut env = Env::system();
    if !local {
        env.network = Arc::new(TcpNetwork);
    }
    let (pool, counters) = (BufferPool::default(), Arc::new(Counters::default()));
    let identity = identity(wire);
    let opened = Connection::open(&env, &identity, address, pool, counters);
    opened.await.expect("a connection")
}

fn main() {
    let number = |n| std::env::args().nth(n).and_then(|a| a.parse().ok());
    let (gib, rounds) = (number(1).unwrap_or(2), number(2).unwrap_or(5));
    let frames = (gib << 30) / FRAME;
    let (plain_at, weft_at) = (plain_server(frames), weft_server(frames));
    runtime().block_on(async {
        let connections = [
            ("plain", connect(&weft_at, false, Wire::Plain).await),
            ("mac", connect(&weft_at, false, Wire::Mac).await),
            ("encrypted", connect(&weft_at, false, Wire::Encrypted).await),
            ("local, plain", connect(&weft_at, true, Wire::Plain).await),
            ("local, mac", connect(&weft_at, true, Wire::Mac).await),
        ];
        let mut runs = vec![Vec::new(); 1 + 2 * connections.len()];
        for _ in 0..rounds {
            for (i, runs) in runs.iter_mut().enumerate() {
                let before = cpu();
                let time = match i.checked_sub(1).map(|i| (&connections[i / 2].1, i % 2)) {
                    None => plain(&plain_at, frames).await,
                    Some((connection, 0)) => down(connection, frames).await,
                    Some((connection, _)) => up(connection, frames).await,
                };
                runs.push((time, cpu().saturating_sub(before)));
            }
        }
        let both = |name: &str| ["down", "up"].map(|way| format!("{name}, {way}"));
        let names = connections.iter().flat_map(|(name, _)| both(name));
        let names = std::iter::once("TCP alone".to_owned()).chain(names);
        let total = (frames * FRAME) as f64;
        let base = median(&runs[0]);
        for (name, runs) in names.zip(&runs) {
            let (time, cpu) = median(runs);
            println!(
                "{name:18} {:6.0} MiB/s {:4.0} %   CPU {:4.0} ms/GiB {:4.0} %",
                total / f64::from(1 << 20) / time.as_secs_f64(),
                100.0 * base.0.as_secs_f64() / time.as_secs_f64(),
                cpu.as_secs_f64() * 1e3 / (total / f64::from(1 << 30)),
                100.0 * cpu.as_secs_f64() / base.1.as_secs_f64(),
            );
        }
    });
}
