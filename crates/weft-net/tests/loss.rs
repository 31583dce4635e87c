//! Lost peers: connections detect the loss promptly, report it clearly and reconnect.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::*;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_net::{BufferPool, CallError, ConnectError, Connection, Counters, Env, Link};
use weft_proto::session::Nothing;
use weft_proto::{Code, Flags, Kind, Retry};

fn reason(error: &CallError) -> &str {
    match error {
        CallError::Lost { reason, .. } => reason,
        other => panic!("not lost: {other:?}"),
    }
}

fn link(env: &Env, address: &str, expected: Option<u32>) -> Link {
    let counters = Arc::new(Counters::default());
    Link::new(
        env.clone(),
        identity(),
        address.to_owned(),
        expected,
        BufferPool::default(),
        counters,
    )
}

/// An environment that reconnects without a backoff.
fn eager() -> Env {
    let mut env = Env::system();
    env.timing.backoff = Duration::from_millis(1);
    env
}

async fn find_again(link: &Link) -> Connection {
    within(async {
        loop {
            match link.connection().await {
                Ok((connection, new)) => {
                    assert!(new);
                    return connection;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_call_fails_at_once_when_the_peer_is_lost() {
    let (listener, address) = listener().await;
    let env = Env::system();
    let (connection, raw) =
        tokio::join!(connect(&env, &address), Raw::accept(&listener, 1 << 20, 4));
    let connection = connection.unwrap();
    let (a, b, c, d) = (
        connection.clone(),
        connection.clone(),
        connection.clone(),
        connection.clone(),
    );
    let calls = [
        tokio::spawn(async move { a.call(&sync(1)).await.map(|_| ()) }),
        tokio::spawn(async move { b.fetch(&read(1)).await.map(|_| ()) }),
        tokio::spawn(async move {
            let mut out = c.send(&write(1), Vec::new(), false).await?;
            loop {
                out.more(vec![pattern(0, 1 << 20)], false).await?;
            }
        }),
        tokio::spawn(async move {
            let sent = d.send(&write(1), vec![pattern(0, 100)], true).await?;
            sent.reply().await.map(|_| ())
        }),
    ];
    tokio::time::sleep(Duration::from_millis(100)).await;
    let for_a_place = connection.clone();
    let waiting = tokio::spawn(async move { for_a_place.call(&sync(2)).await.map(|_| ()) });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let start = Instant::now();
    drop(raw);
    for call in calls.into_iter().chain([waiting]) {
        let error = within(call).await.unwrap().unwrap_err();
        reason(&error);
        assert_eq!(
            (error.code(), error.retry()),
            (Code::Unavailable, Retry::Unknown)
        );
    }
    assert!(
        start.elapsed() < env.timing.silence,
        "the closed stream reveals the loss, not the silence"
    );
    assert!(connection.lost().is_some());
    reason(&within(connection.call(&sync(3))).await.unwrap_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_received_before_the_loss_are_still_delivered() {
    let (listener, address) = listener().await;
    let env = Env::system();
    let serving = async {
        let mut raw = Raw::accept(&listener, 1 << 20, 4).await;
        let asked = raw.receive().await.unwrap();
        let id = asked.header.request;
        raw.send(
            Kind::Read,
            Flags::REPLY,
            id,
            &weft_proto::io::ReadReply::default(),
            &[1; 1000],
        )
        .await;
        raw.send(Kind::Data, Flags::REPLY, id, &Nothing {}, &[2; 1000])
            .await;
    };
    let asking = async {
        let connection = connect(&env, &address).await.unwrap();
        let (_, incoming) = connection.fetch(&read(1)).await.unwrap();
        incoming
    };
    let (mut incoming, ()) = within(async { tokio::join!(asking, serving) }).await;
    assert_eq!(
        within(incoming.next()).await.unwrap().unwrap(),
        vec![1; 1000]
    );
    assert_eq!(
        within(incoming.next()).await.unwrap().unwrap(),
        vec![2; 1000]
    );
    for _ in 0..2 {
        reason(&within(incoming.next()).await.unwrap_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_peer_is_declared_lost() {
    let (listener, address) = listener().await;
    let silence = Duration::from_millis(200);
    let env = impatient(silence);
    let (connection, raw) =
        tokio::join!(connect(&env, &address), Raw::accept(&listener, 1 << 20, 4));
    let connection = connection.unwrap();
    tokio::time::sleep(silence * 2).await;
    assert!(
        connection.lost().is_none(),
        "an idle connection was declared lost"
    );
    let start = Instant::now();
    let error = within(connection.call(&sync(1))).await.unwrap_err();
    assert!(reason(&error).contains("no answer"), "{error}");
    assert!(start.elapsed() >= silence, "after {:?}", start.elapsed());
    // The stream is closed although the peer never closes its side.
    let mut raw = raw;
    raw.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_peer_is_declared_lost_even_if_callers_give_up_sooner() {
    let (listener, address) = listener().await;
    let env = impatient(Duration::from_millis(200));
    let (connection, _raw) = tokio::join!(
        connect(&env, &address),
        Raw::accept(&listener, 1 << 20, 100)
    );
    let connection = connection.unwrap();
    within(async {
        while connection.lost().is_none() {
            let _ =
                tokio::time::timeout(Duration::from_millis(20), connection.call(&sync(1))).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_service_is_not_a_silent_peer() {
    let server = Server::start(Options::default(), |call| async move {
        tokio::time::sleep(Duration::from_millis(600)).await;
        standard(call).await;
    })
    .await;
    let connection = connect(&impatient(Duration::from_millis(200)), &server.address)
        .await
        .unwrap();
    within(connection.call(&sync(1))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_arrives_slowly_is_not_silence() {
    let (listener, address) = listener().await;
    let env = impatient(Duration::from_millis(200));
    let serving = async {
        let mut raw = Raw::accept(&listener, 1 << 20, 4).await;
        let asked = raw.receive().await.unwrap();
        let reply = weft_proto::prost::Message::encode_to_vec(&sync_reply(1));
        let end = Flags::REPLY.with(Flags::LAST);
        let header = weft_proto::Header::encode(Kind::Sync, end, asked.header.request, &reply, &[]);
        for byte in header.iter().chain(&reply) {
            tokio::time::sleep(Duration::from_millis(15)).await;
            raw.stream.write_all(&[*byte]).await.unwrap();
        }
        raw
    };
    let calling = async { connect(&env, &address).await.unwrap().call(&sync(1)).await };
    let (reply, _raw) = within(async { tokio::join!(calling, serving) }).await;
    assert_eq!(reply.unwrap(), sync_reply(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_is_not_silent_until_it_stops_reading() {
    let (listener, address) = listener().await;
    // A small receive buffer keeps the socket from taking much more than the peer has read.
    let socket = SockRef::from(&listener);
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let silence = Duration::from_millis(200);
    let env = impatient(silence);
    let (connection, mut raw) =
        tokio::join!(connect(&env, &address), Raw::accept(&listener, 32 << 20, 4));
    let connection = connection.unwrap();
    let caller = connection.clone();
    let call = tokio::spawn(async move {
        let mut out = caller.send(&write(1), Vec::new(), false).await?;
        for n in 0..32 {
            out.more(vec![pattern(0, 1 << 20)], n == 31).await?;
        }
        out.reply().await.map(|_| ())
    });
    let (start, mut buffer) = (Instant::now(), vec![0; 32 << 10]);
    while start.elapsed() < silence * 5 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        within(raw.stream.read(&mut buffer)).await.unwrap();
    }
    assert!(connection.lost().is_none());
    let error = within(call).await.unwrap().unwrap_err();
    assert!(reason(&error).contains("no answer"), "{error}");
}

#[test]
fn a_resumed_process_reads_its_replies_before_it_declares_a_loss() {
    let serving = tokio::runtime::Runtime::new().unwrap();
    let server = serving.block_on(Server::start(Options::default(), |call| async move {
        tokio::time::sleep(Duration::from_millis(150)).await;
        standard(call).await;
    }));
    let stopped = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    stopped.block_on(async {
        let env = impatient(Duration::from_millis(200));
        let connection = connect(&env, &server.address).await.unwrap();
        let caller = connection.clone();
        let call = tokio::spawn(async move { caller.call(&sync(4)).await });
        tokio::time::sleep(Duration::from_millis(60)).await;
        std::thread::sleep(Duration::from_millis(700));
        within(call).await.unwrap().unwrap();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_keeps_an_idle_connection_and_closes_an_abandoned_one() {
    let mut env = Env::system();
    env.timing.ping = Duration::from_millis(20);
    env.timing.idle = Duration::from_millis(400);
    let server = Server::start(
        Options {
            env: env.clone(),
            ..Options::default()
        },
        standard,
    )
    .await;
    let connection = connect(&env, &server.address).await.unwrap();
    let (mut raw, _) = Raw::prove(&server.address).await;
    let start = Instant::now();
    raw.closed().await;
    assert!(start.elapsed() >= env.timing.idle / 2);
    tokio::time::sleep(env.timing.idle * 2).await;
    assert!(connection.lost().is_none());
    within(connection.call(&sync(1))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_closes_after_its_last_handle_and_call_are_dropped() {
    let server = Server::by_tcp().await;
    let connection = server.connect().await;
    let (_, mut incoming) = within(connection.fetch(&read(10 << 20))).await.unwrap();
    drop(connection);
    let mut bytes = 0;
    while let Some(chunk) = within(incoming.next()).await.unwrap() {
        bytes += chunk.len();
    }
    assert_eq!(bytes, 10 << 20, "a reply keeps its connection open");
    assert_eq!(server.fixture.closed.load(Ordering::SeqCst), 0);
    drop(incoming);
    until("the server sees the connection close", || {
        server.fixture.closed.load(Ordering::SeqCst) == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_ends_its_connections() {
    let server = Server::start(Options::default(), |call| async move {
        let _held = call;
        std::future::pending::<()>().await;
    })
    .await;
    let connection = server.connect().await;
    let asking = connection.clone();
    let call = tokio::spawn(async move { asking.call(&sync(1)).await });
    until("the call arrives", || {
        server.counters.snapshot().calls_of(Kind::Sync) == 1
    })
    .await;
    server.stop().await;
    reason(&within(call).await.unwrap().unwrap_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_reconnects_to_a_restarted_server() {
    let server = Server::usual().await;
    let address = server.address.clone();
    let link = link(&eager(), &address, Some(SERVER));
    let (first, new) = link.connection().await.unwrap();
    assert!(new);
    assert!(
        !link.connection().await.unwrap().1,
        "the link reuses its connection"
    );
    within(first.call(&sync(1))).await.unwrap();
    server.stop().await;
    reason(&within(first.call(&sync(2))).await.unwrap_err());
    let error = link.connection().await.map(|_| ()).unwrap_err();
    assert!(
        matches!(error, ConnectError::Unreachable { .. }),
        "{error:?}"
    );
    let options = Options {
        address,
        ..Options::default()
    };
    let server = Server::start(options, standard).await;
    within(find_again(&link).await.call(&sync(3)))
        .await
        .unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_backs_off_and_callers_share_one_attempt() {
    let (listener, address) = listener().await;
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(stream);
        }
    });
    let mut env = Env::system();
    env.timing.backoff = TEST_TIMEOUT;
    let link = link(&env, &address, None);
    let callers = (0..100).map(|_| {
        let link = link.clone();
        tokio::spawn(async move { link.connection().await.map(|_| ()).unwrap_err().to_string() })
    });
    let mut errors = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        errors.push(within(caller).await.unwrap());
    }
    errors.dedup();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(tries.load(Ordering::SeqCst), 1);
    // A new address is tried at once.
    let server = Server::usual().await;
    link.set_address(&server.address);
    assert!(within(link.connection()).await.unwrap().1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_refuses_a_different_server_at_its_address() {
    let server = Server::usual().await;
    let mistaken = link(&eager(), &server.address, Some(8));
    let error = within(mistaken.connection()).await.map(|_| ()).unwrap_err();
    assert!(
        matches!(
            error,
            ConnectError::WrongServer {
                found: Some(SERVER),
                expected: 8,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(CallError::from(error).retry(), Retry::Refresh);
    let service = Server::start(
        Options {
            server: None,
            ..Options::default()
        },
        standard,
    )
    .await;
    mistaken.set_address(&service.address);
    let error = within(mistaken.connection()).await.map(|_| ()).unwrap_err();
    assert!(
        matches!(error, ConnectError::WrongServer { found: None, .. }),
        "{error:?}"
    );
    let anyone = link(&eager(), &service.address, None);
    within(anyone.connection()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_whose_server_moved_opens_a_new_connection() {
    let (old, new) = (Server::usual().await, Server::usual().await);
    let link = link(&eager(), &old.address, Some(SERVER));
    let (first, _) = within(link.connection()).await.unwrap();
    link.set_address(&new.address);
    let (second, opened) = within(link.connection()).await.unwrap();
    assert!(opened);
    within(second.call(&sync(1))).await.unwrap();
    within(first.call(&sync(2))).await.unwrap();
    assert_eq!(new.counters.snapshot().calls_of(Kind::Sync), 1);
}
