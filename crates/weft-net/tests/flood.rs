//! Floods of unauthenticated connections, and payload that never arrives whole.

use crate::common;

use std::time::{Duration, Instant};

use common::*;
use futures_util::future::join_all;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use weft_net::{Bounds, ConnectError, Env};
use weft_proto::prost::Message;
use weft_proto::session::Hello;
use weft_proto::{Code, Failure, Flags, Header, Kind, limits};

/// Few slots, so that a flood needs few descriptors in the test process.
const UNAUTHENTICATED: usize = 16;

async fn server() -> Server {
    let bounds = Bounds {
        unauthenticated: UNAUTHENTICATED,
        ..Bounds::default()
    };
    let options = Options {
        env: by_tcp(),
        bounds,
        ..Options::default()
    };
    Server::start(options, standard).await
}

/// Connects as a link does: a connection that was evicted is tried again.
async fn honest(address: &str) {
    let mut tries = 1;
    let connection = loop {
        match connect(&by_tcp(), address).await {
            Err(ConnectError::Refused { failure, .. })
                if failure.code() == Code::Busy && tries < 10 =>
            {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(ConnectError::Timeout { .. }) if tries < 10 => tries += 1,
            connection => break connection.unwrap(),
        }
    };
    assert_eq!(connection.call(&sync(7)).await.unwrap(), sync_reply(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_do_not_lock_out_clients_with_the_key() {
    let server = server().await;
    let before = server.connect().await;
    let mut silent = Vec::new();
    for _ in 0..20 * UNAUTHENTICATED {
        silent.push(TcpStream::connect(&server.address).await.unwrap());
    }
    let start = Instant::now();
    for _ in 0..20 {
        within(honest(&server.address)).await;
    }
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "the clients wait until the flood times out"
    );
    within(before.call(&sync(1))).await.unwrap();
    // An evicted connection gets a failure.
    let mut said = Vec::new();
    within(silent[0].read_to_end(&mut said)).await.unwrap();
    let (head, body) = said.split_at(32);
    let header = Header::decode(head.try_into().unwrap()).unwrap();
    assert!(header.flags.has(Flags::FAILED));
    assert_eq!(Failure::decode(body).unwrap().code(), Code::Busy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_connect_during_a_flood_are_served() {
    let server = server().await;
    let address = server.address.clone();
    // Each task keeps few connections open, so that the flood lasts and the test process has enough
    // descriptors.
    let floods: Vec<_> = (0..4)
        .map(|task| {
            let address = address.clone();
            tokio::spawn(async move {
                let mut held = std::collections::VecDeque::new();
                loop {
                    let Ok(stream) = TcpStream::connect(&address).await else {
                        continue;
                    };
                    let mut raw = Raw::over(stream);
                    // These connections send a hello and nothing more.
                    if task == 0 {
                        let hello: Hello = hello(&VOLUME);
                        raw.send(Kind::Hello, Flags::LAST, 1, &hello, &[]).await;
                    }
                    held.push_back(raw);
                    if held.len() > 2 * UNAUTHENTICATED {
                        held.pop_front();
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    for _ in 0..10 {
        within(join_all((0..3).map(|_| honest(&address)))).await;
    }
    for flood in floods {
        flood.abort();
    }
}

#[tokio::test]
async fn no_memory_is_allocated_for_payload_beyond_the_window() {
    let bounds = Bounds {
        windows: 4 << 20,
        ..Bounds::default()
    };
    let options = Options {
        env: by_tcp(),
        bounds,
        ..Options::default()
    };
    let server = Server::start(options, standard).await;
    let proven = join_all((0..50).map(|_| Raw::prove(&server.address))).await;
    let granted: u64 = proven
        .iter()
        .map(|(_, welcome)| u64::from(welcome.window))
        .sum();
    assert!(granted <= 4 << 20, "{granted}");
    let mut held: Vec<Raw> = proven.into_iter().map(|(raw, _)| raw).collect();
    for raw in &mut held {
        // The largest frame, for an unknown call; only its head is sent.
        let largest = vec![0; limits::PAYLOAD_MAX as usize];
        let begun = Raw::frame(Kind::Data, Flags::default(), 99, &[], &largest);
        raw.send_bytes(&begun[..1000]).await;
    }
    for raw in &mut held {
        // The server refuses the head without waiting for the rest.
        within(raw.closed()).await;
    }
    // A large payload arrives although only a few KiB of window are left.
    let (raws, connection) = (
        join_all((0..50).map(|_| Raw::prove(&server.address))).await,
        connect(&Env::system(), &server.address).await.unwrap(),
    );
    let bytes = 10 << 20;
    let request = write(1);
    let sent = connection.send(&request, vec![pattern(0, bytes)], true);
    let outgoing = within(sent).await.unwrap();
    let reply = within(outgoing.reply()).await.unwrap();
    assert_eq!(reply.bytes, bytes as u64);
    drop(raws);
}

#[tokio::test]
async fn a_connection_returns_its_window_when_it_ends() {
    let server = Server::by_tcp().await;
    let (raw, first) = Raw::prove(&server.address).await;
    assert_eq!(first.window, Bounds::default().window);
    let (_, second) = Raw::prove(&server.address).await;
    assert!(second.window < first.window);
    drop(raw);
    within(async {
        while Raw::prove(&server.address).await.1.window < first.window {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[test]
fn connections_leave_descriptors_for_the_store() {
    let bounds = Bounds::default().within(1 << 20);
    assert_eq!((bounds.connections, bounds.unauthenticated), (1024, 128));
    let few = Bounds::default().within(1024);
    assert!(
        2 * (few.connections + few.unauthenticated) <= 512,
        "{few:?}"
    );
    let fewest = Bounds::default().within(0);
    assert_eq!((fewest.connections, fewest.unauthenticated), (1, 1));
}
