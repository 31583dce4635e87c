//! A server whose service is a closure, a client, and both sides of the protocol by hand.

#![allow(dead_code)] // each test file uses a part of it

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weft_net::{
    Bounds, BufferPool, ConnectError, Connection, Counters, Env, Identity, Peer, Reply, Served,
    Service, TcpNetwork, VolumeKey, Wire,
};
use weft_proto::io::{
    Access, ForkState, ReadReply, ReadRequest, SyncReply, SyncRequest, WriteReply, WriteRequest,
};
use weft_proto::prost::Message;
use weft_proto::session::{Challenge, Credit, Hello, Proof, Role, Welcome};
use weft_proto::{Flags, HEADER_BYTES, Header, Kind, VERSION, VERSION_OLDEST, limits};

pub const KEY: [u8; 32] = [7; 32];
pub const VOLUME: [u8; 16] = [9; 16];
pub const SERVER: u32 = 3;
/// Long enough for a heavily loaded machine: only a hanging test waits this long.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(20);

type Handler = Box<dyn Fn(Served) -> BoxFuture<'static, ()> + Send + Sync>;

pub struct Fixture {
    handler: Handler,
    pub opened: AtomicUsize,
    pub closed: AtomicUsize,
}

impl Service for Fixture {
    fn serve(self: Arc<Self>, call: Served) -> BoxFuture<'static, ()> {
        (self.handler)(call)
    }
    fn is_brief(&self, _kind: Kind) -> bool {
        true
    }
    fn opened(&self, _peer: &Arc<Peer>) {
        self.opened.fetch_add(1, Ordering::SeqCst);
    }
    fn closed(&self, _peer: &Arc<Peer>) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

pub struct Server {
    pub address: String,
    pub counters: Arc<Counters>,
    pub fixture: Arc<Fixture>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

pub struct Options {
    pub env: Env,
    pub bounds: Bounds,
    pub address: String,
    pub key: [u8; 32],
    pub server: Option<u32>,
    /// The least protection that the server accepts. [`Raw`] sends plain frames; other clients
    /// request more.
    pub wire: Wire,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            env: Env::system(),
            bounds: Bounds::default(),
            address: "127.0.0.1:0".to_owned(),
            key: KEY,
            server: Some(SERVER),
            wire: Wire::Plain,
        }
    }
}

/// The identity of a client that also accepts a peer whose frames have no tags.
pub fn identity() -> Identity {
    Identity {
        key: VolumeKey(KEY),
        volume: VOLUME,
        role: Role::Client,
        client: 42,
        wire: Wire::Plain,
    }
}

/// An environment without local sockets: each client keeps its first connection.
pub fn by_tcp() -> Env {
    Env {
        network: Arc::new(TcpNetwork),
        ..Env::system()
    }
}

/// An environment that declares a connection lost after `silence`.
pub fn impatient(silence: Duration) -> Env {
    let mut env = Env::system();
    env.timing.ping = silence / 4;
    env.timing.silence = silence;
    env
}

impl Server {
    pub async fn start<F, R>(options: Options, handler: F) -> Server
    where
        F: Fn(Served) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = options.env.network.listen(&options.address).await.unwrap();
        let address = listener.address().unwrap();
        let counters = Arc::new(Counters::default());
        let fixture = Arc::new(Fixture {
            handler: Box::new(move |call| Box::pin(handler(call))),
            opened: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let identity = Identity {
            key: VolumeKey(options.key),
            wire: options.wire,
            ..identity()
        };
        let task = tokio::spawn(weft_net::serve(
            options.env,
            listener,
            identity,
            options.server,
            options.bounds,
            fixture.clone(),
            counters.clone(),
            async {
                let _ = stopped.await;
            },
        ));
        Server {
            address,
            counters,
            fixture,
            stop,
            task,
        }
    }

    /// Starts a server of [`standard`] with default options.
    pub async fn usual() -> Server {
        Self::start(Options::default(), standard).await
    }

    /// Starts a server of [`standard`] without a local socket.
    pub async fn by_tcp() -> Server {
        let options = Options {
            env: by_tcp(),
            ..Options::default()
        };
        Self::start(options, standard).await
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        within(self.task).await.unwrap();
    }

    pub async fn connect(&self) -> Connection {
        let client = Identity {
            wire: Wire::Mac,
            ..identity()
        };
        connect_as(&Env::system(), &client, &self.address)
            .await
            .unwrap()
    }
}

pub async fn connect(env: &Env, address: &str) -> Result<Connection, ConnectError> {
    connect_as(env, &identity(), address).await
}

pub async fn connect_as(
    env: &Env,
    identity: &Identity,
    address: &str,
) -> Result<Connection, ConnectError> {
    let counters = Arc::new(Counters::default());
    Connection::open(env, identity, address, BufferPool::default(), counters).await
}

/// Fails the test instead of hanging.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, future)
        .await
        .expect("timed out")
}

/// Waits until `done` holds.
pub async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(
            start.elapsed() < TEST_TIMEOUT,
            "timed out waiting until {what}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub fn pattern(offset: usize, len: usize) -> Bytes {
    (offset..offset + len)
        .map(|i| (i % 251) as u8)
        .collect::<Vec<_>>()
        .into()
}

pub fn read(bytes: u64) -> ReadRequest {
    ReadRequest {
        access: Access {
            file: bytes,
            ..Access::default()
        },
        ..ReadRequest::default()
    }
}

pub fn write(file: u64) -> WriteRequest {
    WriteRequest {
        access: Access {
            file,
            ..Access::default()
        },
        ..WriteRequest::default()
    }
}

pub fn sync(file: u64) -> SyncRequest {
    SyncRequest {
        file,
        ..SyncRequest::default()
    }
}

/// The reply to a `Sync` of `file`.
pub fn sync_reply(file: u64) -> SyncReply {
    let cell = ForkState {
        length: file,
        ..ForkState::default()
    };
    SyncReply { cells: vec![cell] }
}

/// `Sync` echoes its file's number, `Read` streams as many bytes as its file's number, `Write`
/// counts its payload.
pub async fn standard(mut call: Served) {
    match call.kind {
        Kind::Sync => {
            let file = call.request::<SyncRequest>().unwrap().file;
            call.reply.done(&sync_reply(file));
        }
        Kind::Read => {
            let bytes = call.request::<ReadRequest>().unwrap().access.file;
            let _ = stream(&mut call.reply, bytes as usize, 256 << 10).await;
        }
        Kind::Write => {
            let mut bytes = 0;
            while let Some(chunk) = call.payload.next().await {
                assert_eq!(chunk, pattern(bytes, chunk.len()));
                bytes += chunk.len();
                drop(chunk);
                call.payload.release();
            }
            let bytes = bytes as u64;
            call.reply.done(&WriteReply {
                bytes,
                ..WriteReply::default()
            });
        }
        _ => {}
    }
}

pub async fn stream(reply: &mut Reply, bytes: usize, frame: usize) -> Result<(), weft_net::Gone> {
    let first = bytes.min(frame);
    let head = ReadReply {
        bytes: bytes as u64,
        ..ReadReply::default()
    };
    reply
        .head(&head, vec![pattern(0, first)], first == bytes)
        .await?;
    let mut sent = first;
    while sent < bytes {
        let next = (bytes - sent).min(frame);
        reply
            .data(vec![pattern(sent, next)], sent + next == bytes)
            .await?;
        sent += next;
    }
    Ok(())
}

/// One side of the protocol by hand.
pub struct Raw {
    pub stream: TcpStream,
}

pub struct RawFrame {
    pub header: Header,
    pub body: Vec<u8>,
    pub payload: Vec<u8>,
}

pub fn hello(volume: &[u8]) -> Hello {
    Hello {
        version_oldest: VERSION_OLDEST,
        version_newest: VERSION,
        nonce: Bytes::from_static(&[1; 32]),
        role: Role::Client as i32,
        client: 77,
        volume: Bytes::copy_from_slice(volume),
        reply_window: 4 << 20,
        local: String::new(),
        wire_least: Wire::Plain as i32,
        wire_most: Wire::Plain as i32,
    }
}

/// The proof as `docs/protocol.md` defines it, from the bytes as sent.
pub fn proof(key: &[u8; 32], side: &str, hello: &[u8], challenge: &[u8]) -> Bytes {
    let mut said = Vec::new();
    said.extend_from_slice(side.as_bytes());
    for bytes in [hello, challenge] {
        said.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        said.extend_from_slice(bytes);
    }
    Bytes::copy_from_slice(blake3::keyed_hash(key, &said).as_bytes())
}

impl Raw {
    pub async fn dial(address: &str) -> Raw {
        Raw::over(TcpStream::connect(address).await.unwrap())
    }

    pub fn over(stream: TcpStream) -> Raw {
        stream.set_nodelay(true).unwrap();
        Raw { stream }
    }

    /// The bytes of a frame.
    pub fn frame(kind: Kind, flags: Flags, request: u64, body: &[u8], payload: &[u8]) -> Vec<u8> {
        let all = [Bytes::copy_from_slice(payload)];
        let header = Header::encode(kind, flags, request, body, &all);
        [&header[..], body, payload].concat()
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        within(self.stream.write_all(bytes)).await.unwrap();
    }

    pub async fn try_send(
        &mut self,
        kind: Kind,
        flags: Flags,
        request: u64,
        body: &[u8],
        payload: &[u8],
    ) -> std::io::Result<()> {
        let bytes = Raw::frame(kind, flags, request, body, payload);
        self.stream.write_all(&bytes).await
    }

    pub async fn send(
        &mut self,
        kind: Kind,
        flags: Flags,
        request: u64,
        body: &impl Message,
        payload: &[u8],
    ) {
        let body = body.encode_to_vec();
        within(self.try_send(kind, flags, request, &body, payload))
            .await
            .unwrap();
    }

    /// The next frame; `None` when the peer closed.
    pub async fn receive(&mut self) -> Option<RawFrame> {
        within(async {
            let mut head = [0; HEADER_BYTES];
            self.stream.read_exact(&mut head).await.ok()?;
            let header = Header::decode(&head).unwrap();
            let mut body = vec![0; header.body_len as usize];
            self.stream.read_exact(&mut body).await.ok()?;
            header.check_body(&head, &body).unwrap();
            let mut payload = vec![0; header.payload_len as usize];
            self.stream.read_exact(&mut payload).await.ok()?;
            header.check_payload(&payload).unwrap();
            Some(RawFrame {
                header,
                body,
                payload,
            })
        })
        .await
    }

    /// The handshake's client side.
    pub async fn prove(address: &str) -> (Raw, Welcome) {
        Self::prove_with(address, &hello(&VOLUME).encode_to_vec()).await
    }

    pub async fn prove_with(address: &str, hello: &[u8]) -> (Raw, Welcome) {
        let mut raw = Raw::dial(address).await;
        raw.try_send(Kind::Hello, Flags::LAST, 1, hello, &[])
            .await
            .unwrap();
        let challenge = raw.receive().await.expect("a challenge");
        assert!(!challenge.header.flags.has(Flags::FAILED));
        let proof = proof(&KEY, "weft client", hello, &challenge.body);
        raw.send(Kind::Proof, Flags::LAST, 2, &Proof { proof }, &[])
            .await;
        let welcome = raw.receive().await.expect("a welcome");
        assert!(
            !welcome.header.flags.has(Flags::FAILED),
            "refused: {:?}",
            weft_proto::Failure::decode(&welcome.body[..])
        );
        let welcome = Welcome::decode(&welcome.body[..]).unwrap();
        (raw, welcome)
    }

    /// Waits for a client on `listener` and plays the server's side of the handshake.
    pub async fn accept(listener: &TcpListener, window: u32, calls: u32) -> Raw {
        let (stream, _) = within(listener.accept()).await.unwrap();
        let mut raw = Raw::over(stream);
        let hello = raw.receive().await.unwrap();
        let challenge = Challenge {
            version: VERSION,
            nonce: Bytes::from_static(&[2; 32]),
            volume: Bytes::from_static(&VOLUME),
            local: String::new(),
            wire: Wire::Plain as i32,
        };
        let end = Flags::REPLY.with(Flags::LAST);
        raw.send(Kind::Hello, end, 1, &challenge, &[]).await;
        let given = raw.receive().await.unwrap();
        let challenge = challenge.encode_to_vec();
        let expected = proof(&KEY, "weft client", &hello.body, &challenge);
        assert_eq!(Proof::decode(&given.body[..]).unwrap().proof, expected);
        let welcome = Welcome {
            proof: proof(&KEY, "weft server", &hello.body, &challenge),
            server: Some(SERVER),
            window,
            calls,
            incarnation: 0,
        };
        raw.send(Kind::Proof, end, 2, &welcome, &[]).await;
        raw
    }

    /// Returns window for a call's payload.
    pub async fn credit_reply(&mut self, request: u64, bytes: u32) {
        let flags = Flags::REPLY.with(Flags::LAST);
        let credit = Credit { bytes, request };
        self.send(Kind::Credit, flags, request, &credit, &[]).await;
    }

    /// Answers a `Sync`.
    pub async fn answer_sync(&mut self, request: u64, file: u64) {
        let flags = Flags::REPLY.with(Flags::LAST);
        self.send(Kind::Sync, flags, request, &sync_reply(file), &[])
            .await;
    }

    /// Reads on until the peer closes.
    pub async fn closed(&mut self) {
        let mut sink = vec![0; 64 << 10];
        within(async {
            while let Ok(n) = self.stream.read(&mut sink).await {
                if n == 0 {
                    break;
                }
            }
        })
        .await;
    }
}

pub async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

pub const PAYLOAD_MAX: usize = limits::PAYLOAD_MAX as usize;
