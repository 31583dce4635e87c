//! Clients on a server's machine connect through its local socket
//! (`docs/design/0016-local-sockets.md`).

use crate::common;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use weft_net::{Connection, Env, Listener, Network, Opened, SystemNetwork, TcpNetwork};
use weft_proto::prost::Message;
use weft_proto::session::{Challenge, Hello};
use weft_proto::{Code, Failure, Flags, HEADER_BYTES, Header, Kind};

use common::{
    Options, Raw, Server, VOLUME, by_tcp, connect, hello, pattern, read, standard, sync,
    sync_reply, until, within, write,
};

/// A server that replies to each `Sync` with 1 if the client uses its local socket, and 0 if it
/// uses TCP.
async fn telling(options: Options) -> Server {
    Server::start(options, |call| async move {
        if call.kind != Kind::Sync {
            return standard(call).await;
        }
        let local = u64::from(call.peer.address.contains("process"));
        call.reply.done(&sync_reply(local));
    })
    .await
}

async fn came_locally(connection: &Connection) -> bool {
    let reply = within(connection.call(&sync(7))).await.unwrap();
    reply.cells[0].length == 1
}

/// The name of a server's local socket, from its challenge.
async fn name_of(address: &str) -> String {
    let mut raw = Raw::dial(address).await;
    let hello = hello(&VOLUME);
    raw.send(Kind::Hello, Flags::LAST, 1, &hello, &[]).await;
    let frame = raw.receive().await.unwrap();
    Challenge::decode(&frame.body[..]).unwrap().local
}

#[tokio::test]
async fn a_client_on_the_machine_of_the_server_uses_the_local_socket() {
    let server = telling(Options::default()).await;
    let connection = server.connect().await;
    assert!(came_locally(&connection).await);
    // The client closes its first connection.
    let fixture = server.fixture.clone();
    until("the TCP connection ends", || {
        fixture.closed.load(Ordering::SeqCst) == 1
    })
    .await;
    assert_eq!(fixture.opened.load(Ordering::SeqCst), 2);
    assert!(came_locally(&connection).await);

    // Large payloads arrive in both directions.
    let bytes = 9_000_001;
    let (_, mut incoming) = within(connection.fetch(&read(bytes))).await.unwrap();
    let mut got = 0;
    while let Some(part) = within(incoming.next()).await.unwrap() {
        assert_eq!(part, pattern(got, part.len()));
        got += part.len();
    }
    assert_eq!(got as u64, bytes);
    let mut outgoing = within(connection.send(&write(1), Vec::new(), false))
        .await
        .unwrap();
    for at in (0..3_000_000).step_by(100_000) {
        let last = at == 2_900_000;
        within(outgoing.more(vec![pattern(at, 100_000)], last))
            .await
            .unwrap();
    }
    assert_eq!(within(outgoing.reply()).await.unwrap().bytes, 3_000_000);
    server.stop().await;
    assert!(within(connection.call(&sync(1))).await.is_err());
}

#[tokio::test]
async fn each_start_has_its_own_socket_name_and_a_tcp_only_server_has_none() {
    let first = telling(Options::default()).await;
    let second = telling(Options::default()).await;
    let (one, two) = (
        name_of(&first.address).await,
        name_of(&second.address).await,
    );
    let (random, machine) = one.split_at(37);
    assert!(!two.starts_with(random), "{one} {two}");
    // Both names identify the machine. A client does not connect to a name of another machine, even
    // if a program on this machine listens on it.
    assert!(two.ends_with(machine) && machine.len() > 34, "{one} {two}");
    let elsewhere = one.replace(machine, "-f0000001-0123456789abcdef0123456789abcdef");
    let _stranger = UnixListener::bind(format!("\0{elsewhere}")).unwrap();
    assert!(SystemNetwork.connect_local(&one).await.is_ok());
    assert!(SystemNetwork.connect_local(&elsewhere).await.is_err());

    let options = Options {
        env: by_tcp(),
        ..Options::default()
    };
    let plain = telling(options).await;
    assert_eq!(name_of(&plain.address).await, "");
    assert!(!came_locally(&plain.connect().await).await);
}

/// Where [`Detour`] connects a client that asks for a local socket.
enum Way {
    /// To the server by TCP, as if a relay listened on the socket.
    Tcp(String),
    /// To a program that accepts and sends nothing.
    Silence(String),
    /// Nowhere: the connection is refused.
    Nowhere,
}

struct Detour {
    way: Way,
    tried: AtomicUsize,
}

impl Network for Detour {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        TcpNetwork.connect(address)
    }

    fn connect_local<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        self.tried.fetch_add(1, Ordering::SeqCst);
        match &self.way {
            Way::Tcp(address) => TcpNetwork.connect(address),
            Way::Silence(name) => SystemNetwork.connect_local(name),
            Way::Nowhere => async { Err(io::ErrorKind::ConnectionRefused.into()) }.boxed(),
        }
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        TcpNetwork.listen(address)
    }
}

async fn connects_by_tcp_after(server: &Server, way: Way) -> Duration {
    let detour = Arc::new(Detour {
        way,
        tried: AtomicUsize::new(0),
    });
    let mut env = Env::system();
    env.network = detour.clone();
    env.timing.connect = Duration::from_millis(1500);
    let began = Instant::now();
    let connection = within(connect(&env, &server.address)).await.unwrap();
    let took = began.elapsed();
    assert_eq!(detour.tried.load(Ordering::SeqCst), 1);
    assert!(!came_locally(&connection).await);
    took
}

#[tokio::test]
async fn tcp_is_the_fallback_for_any_local_socket_error() {
    let server = telling(Options::default()).await;
    connects_by_tcp_after(&server, Way::Nowhere).await;
    // The server detects a relay that forwards a local connection by TCP.
    connects_by_tcp_after(&server, Way::Tcp(server.address.clone())).await;
    let real = name_of(&server.address).await;
    let stranger = real.replace("weft-", "weft-of-a-stranger-");
    let _listening = UnixListener::bind(format!("\0{stranger}")).unwrap();
    let took = connects_by_tcp_after(&server, Way::Silence(stranger)).await;
    assert!(took >= Duration::from_millis(400), "{took:?}");
}

async fn refusal_over_local_socket(name: &str, hello: &Hello) -> Failure {
    let mut stream = UnixStream::connect(format!("\0{name}")).await.unwrap();
    let body = hello.encode_to_vec();
    let header = Header::encode(Kind::Hello, Flags::LAST, 1, &body, &[]);
    stream
        .write_all(&[&header[..], &body].concat())
        .await
        .unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    let header = Header::decode(answer[..HEADER_BYTES].try_into().unwrap()).unwrap();
    assert!(header.flags.has(Flags::FAILED));
    Failure::decode(&answer[HEADER_BYTES..]).unwrap()
}

#[tokio::test]
async fn a_hello_that_names_the_wrong_transport_is_refused() {
    let server = telling(Options::default()).await;
    let name = name_of(&server.address).await;
    let saying = |local: &str| Hello {
        local: local.to_owned(),
        ..hello(&VOLUME)
    };
    for claim in [&name, "weft-of-somebody-else"] {
        let mut raw = Raw::dial(&server.address).await;
        raw.send(Kind::Hello, Flags::LAST, 1, &saying(claim), &[])
            .await;
        let frame = raw.receive().await.unwrap();
        let failure = Failure::decode(&frame.body[..]).unwrap();
        assert_eq!(failure.code(), Code::Invalid);
        assert!(failure.message.contains("another way"), "{failure:?}");
        assert!(raw.receive().await.is_none(), "the connection is closed");
    }
    for claim in ["", "weft-of-somebody-else"] {
        let failure = refusal_over_local_socket(&name, &saying(claim)).await;
        assert_eq!(failure.code(), Code::Invalid);
    }
}
