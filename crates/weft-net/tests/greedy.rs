//! A peer that takes more than its grant is disconnected at exactly the bound; other peers keep
//! working.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::*;
use tokio::io::AsyncWriteExt;
use weft_net::{Bounds, CallError, Env, Served};
use weft_proto::io::{ReadReply, SyncReply};
use weft_proto::meta::ReadLinkReply;
use weft_proto::session::{Credit, Hello, Nothing, Ping};
use weft_proto::{Flags, Header, Kind, limits, prost::Message};

const WINDOW: u32 = 256 << 10;
const CALLS: u32 = 4;

/// Holds the call and its payload until the client cancels it.
async fn until_cancelled(call: Served) {
    while !call.reply.cancelled() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A server that replies to no call and consumes no payload.
async fn mute() -> Server {
    let bounds = Bounds {
        window: WINDOW,
        calls: CALLS,
        ..Bounds::default()
    };
    Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        until_cancelled,
    )
    .await
}

/// Whether the server still answers this connection.
async fn alive(raw: &mut Raw) -> bool {
    if raw
        .try_send(Kind::Ping, Flags::LAST, 999, &[], &[])
        .await
        .is_err()
    {
        return false;
    }
    while let Some(frame) = raw.receive().await {
        if frame.header.kind == Kind::Ping {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn a_client_with_more_calls_than_granted_is_disconnected() {
    let server = mute().await;
    let (mut raw, welcome) = Raw::prove(&server.address).await;
    assert_eq!((welcome.calls, welcome.window), (CALLS, WINDOW));
    for id in 0..u64::from(CALLS) {
        raw.send(Kind::Sync, Flags::LAST, 10 + id, &sync(1), &[])
            .await;
    }
    assert!(alive(&mut raw).await);
    raw.send(Kind::Sync, Flags::LAST, 20, &sync(1), &[]).await;
    assert!(!alive(&mut raw).await);
    assert!(alive(&mut Raw::prove(&server.address).await.0).await);
}

#[tokio::test]
async fn a_client_that_reuses_the_id_of_a_running_call_is_disconnected() {
    let server = mute().await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    raw.send(Kind::Sync, Flags::LAST, 10, &sync(1), &[]).await;
    raw.send(Kind::Read, Flags::LAST, 10, &read(1), &[]).await;
    assert!(!alive(&mut raw).await);
}

#[tokio::test]
async fn a_client_that_overruns_its_windows_is_disconnected() {
    let server = mute().await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    // Each call fills its own window, and the first one the shared window too.
    let own = vec![0; limits::CALL_WINDOW as usize];
    for id in 10..13 {
        raw.send(Kind::Write, Flags::default(), id, &write(1), &own)
            .await;
    }
    let shared = vec![0; WINDOW as usize];
    raw.send(Kind::Data, Flags::default(), 10, &Nothing {}, &shared)
        .await;
    assert!(alive(&mut raw).await);
    raw.send(Kind::Write, Flags::default(), 13, &write(1), &own)
        .await;
    assert!(alive(&mut raw).await, "a new call has its own window");
    raw.send(Kind::Data, Flags::LAST, 11, &Nothing {}, &[0])
        .await;
    assert!(!alive(&mut raw).await);
}

#[tokio::test]
async fn tiny_frames_take_a_minimum_of_window() {
    let server = mute().await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    raw.send(Kind::Write, Flags::default(), 10, &write(1), &[])
        .await;
    let fit = (WINDOW + limits::CALL_WINDOW) / limits::FRAME_COST_MIN;
    let tiny = Header::encode(
        Kind::Data,
        Flags::default(),
        10,
        &[],
        &[Bytes::from_static(b"x")],
    );
    let tiny = [&tiny[..], b"x"].concat();
    raw.stream
        .write_all(&tiny.repeat(fit as usize))
        .await
        .unwrap();
    // Frames without payload take no memory and so no window.
    for _ in 0..1000 {
        raw.send(Kind::Data, Flags::default(), 10, &Nothing {}, &[])
            .await;
    }
    assert!(alive(&mut raw).await);
    raw.stream.write_all(&tiny).await.unwrap();
    assert!(!alive(&mut raw).await);
}

#[tokio::test]
async fn empty_frames_do_not_reach_the_service() {
    let (told, mut chunks) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::start(Options::default(), move |mut call: Served| {
        let told = told.clone();
        async move {
            let call = &mut call;
            let mut count = 0;
            while call.payload.next().await.is_some() {
                count += 1;
            }
            told.send(count).unwrap();
        }
    })
    .await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    raw.send(Kind::Write, Flags::default(), 5, &write(1), &[])
        .await;
    for _ in 0..100 {
        raw.send(Kind::Data, Flags::default(), 5, &Nothing {}, &[])
            .await;
    }
    raw.send(Kind::Data, Flags::LAST, 5, &Nothing {}, &[]).await;
    assert_eq!(within(chunks.recv()).await, Some(0));
}

#[tokio::test]
async fn a_client_with_too_many_request_bytes_in_flight_is_disconnected() {
    let bounds = Bounds {
        calls: 100,
        ..Bounds::default()
    };
    let server = Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        until_cancelled,
    )
    .await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    let body = vec![0x7a; limits::BODY_MAX as usize];
    let fit = u64::from(limits::BODIES_MAX / limits::BODY_MAX);
    for id in 0..fit {
        raw.try_send(Kind::Write, Flags::LAST, 10 + id, &body, &[])
            .await
            .unwrap();
    }
    assert!(alive(&mut raw).await);
    raw.try_send(Kind::Write, Flags::LAST, 9, &[1], &[])
        .await
        .unwrap();
    assert!(!alive(&mut raw).await);
}

#[tokio::test]
async fn a_client_that_sends_frames_only_a_server_may_send_is_disconnected() {
    let server = mute().await;
    let reply = Flags::REPLY.with(Flags::LAST);
    let payload = Bytes::from_static(b"payload");
    let sends: [(Kind, Flags, Vec<u8>, Bytes); 6] = [
        (Kind::Sync, reply, Vec::new(), Bytes::new()),
        (Kind::Sync, Flags::FAILED, Vec::new(), Bytes::new()),
        (
            Kind::Hello,
            Flags::LAST,
            hello(&VOLUME).encode_to_vec(),
            Bytes::new(),
        ),
        (Kind::Ping, Flags::LAST, Vec::new(), payload.clone()),
        (Kind::Credit, Flags::LAST, Vec::new(), payload.clone()),
        (Kind::Cancel, Flags::LAST, vec![0xff; 3], Bytes::new()),
    ];
    for (kind, flags, body, payload) in sends {
        let (mut raw, _) = Raw::prove(&server.address).await;
        raw.try_send(kind, flags, 10, &body, &payload)
            .await
            .unwrap();
        assert!(!alive(&mut raw).await, "{kind:?} {flags:?}");
    }
}

#[tokio::test]
async fn a_client_that_credits_more_than_it_received_is_disconnected() {
    let server = mute().await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    let credit = Credit {
        bytes: 1,
        request: 10,
    };
    raw.send(Kind::Credit, Flags::LAST, 10, &credit, &[]).await;
    assert!(
        alive(&mut raw).await,
        "a call that has ended may still be credited"
    );
    raw.send(Kind::Read, Flags::LAST, 10, &read(1), &[]).await;
    raw.send(Kind::Credit, Flags::LAST, 10, &credit, &[]).await;
    assert!(!alive(&mut raw).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_disconnected_after_a_bounded_number_of_calls() {
    let answers = Arc::new(AtomicUsize::new(0));
    let counted = answers.clone();
    let bounds = Bounds {
        calls: 16,
        ..Bounds::default()
    };
    let server = Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        move |call| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                let text = Bytes::from(vec![1; 900_000]);
                call.reply.done(&ReadLinkReply { text });
            }
        },
    )
    .await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    for id in 0..500 {
        if raw
            .try_send(Kind::ReadLink, Flags::LAST, 100 + id, &[], &[])
            .await
            .is_err()
        {
            break;
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    until("the server disconnects the client", || {
        server.fixture.closed.load(Ordering::SeqCst) == 1
    })
    .await;
    // The socket's buffers and the queue hold these replies.
    assert!(answers.load(Ordering::SeqCst) < 60, "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_pings_and_never_reads_is_disconnected() {
    let server = mute().await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    let pings = Header::encode(Kind::Ping, Flags::LAST, 9, &Ping {}.encode_to_vec(), &[]);
    let pings = pings.repeat(10_000);
    within(async { while raw.stream.write_all(&pings).await.is_ok() {} }).await;
    assert!(alive(&mut Raw::prove(&server.address).await.0).await);
}

/// A client's connection and the server's side of it by hand.
async fn by_hand(window: u32) -> (weft_net::Connection, Raw) {
    let (listener, address) = listener().await;
    let env = Env::system();
    let (connection, raw) =
        tokio::join!(connect(&env, &address), Raw::accept(&listener, window, 8));
    (connection.unwrap(), raw)
}

#[tokio::test]
async fn a_client_leaves_a_server_that_overruns_the_reply_window() {
    let (connection, mut raw) = by_hand(1 << 20).await;
    let asking = connection.clone();
    let asked = tokio::spawn(async move { asking.fetch(&read(1)).await });
    let id = raw.receive().await.unwrap().header.request;
    raw.send(Kind::Read, Flags::REPLY, id, &ReadReply::default(), &[])
        .await;
    let (_, incoming) = within(asked).await.unwrap().unwrap();
    let frame = vec![0; PAYLOAD_MAX];
    for _ in 0..limits::REPLY_WINDOW_MIN >> 20 {
        raw.send(Kind::Data, Flags::REPLY, id, &Nothing {}, &frame)
            .await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(connection.lost().is_none());
    raw.send(Kind::Data, Flags::REPLY, id, &Nothing {}, &[0])
        .await;
    until("the client disconnects", || connection.lost().is_some()).await;
    assert!(connection.lost().unwrap().contains("more of a reply"));
    drop(incoming);
}

#[tokio::test]
async fn a_client_leaves_a_server_that_breaks_the_protocol() {
    let reply = Flags::REPLY;
    let ended = reply.with(Flags::LAST);
    let cases: [(Kind, Flags, Vec<u8>, &str); 6] = [
        (
            Kind::Sync,
            Flags::LAST,
            Vec::new(),
            "sent a request of kind Sync",
        ),
        (Kind::Stat, ended, Vec::new(), "answered Sync with Stat"),
        (Kind::Data, ended, Vec::new(), "answered Sync with Data"),
        (
            Kind::Sync,
            reply.with(Flags::FAILED),
            Vec::new(),
            "answered Sync with Sync",
        ),
        (
            Kind::Credit,
            ended,
            Credit {
                bytes: 1,
                request: 16,
            }
            .encode_to_vec(),
            "credits more",
        ),
        (Kind::Credit, ended, vec![0xff; 3], "cannot be decoded"),
    ];
    for (kind, flags, body, words) in cases {
        let (connection, mut raw) = by_hand(1 << 20).await;
        let asking = connection.clone();
        let asked = tokio::spawn(async move { asking.call(&sync(1)).await });
        let id = raw.receive().await.unwrap().header.request;
        assert_eq!(id, 16);
        raw.try_send(kind, flags, id, &body, &[]).await.unwrap();
        let error = within(asked).await.unwrap().unwrap_err();
        let CallError::Lost { reason, .. } = error else {
            panic!("{error:?}")
        };
        assert!(reason.contains(words), "{reason}");
    }
}

#[tokio::test]
async fn an_invalid_reply_fails_only_its_call() {
    let (connection, mut raw) = by_hand(1 << 20).await;
    let ended = Flags::REPLY.with(Flags::LAST);
    let cases: [(Flags, &[u8]); 2] = [(ended, &[0xff; 3]), (Flags::REPLY, &[])];
    for (flags, body) in cases {
        let asking = connection.clone();
        let asked = tokio::spawn(async move { asking.call(&sync(1)).await });
        let id = raw.receive().await.unwrap().header.request;
        raw.try_send(Kind::Sync, flags, id, body, &[])
            .await
            .unwrap();
        let error = within(asked).await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Protocol { .. }), "{error:?}");
    }
    // The client cancels the call whose reply continued instead of ending.
    assert_eq!(raw.receive().await.unwrap().header.kind, Kind::Cancel);
    let asking = connection.clone();
    let asked = tokio::spawn(async move { asking.call(&sync(1)).await });
    let id = raw.receive().await.unwrap().header.request;
    raw.send(Kind::Sync, ended, id, &SyncReply::default(), &[])
        .await;
    within(asked).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_hello_offers_the_reply_window_that_the_client_enforces() {
    let (listener, address) = listener().await;
    let env = Env::system();
    let (_, hello) = tokio::join!(connect(&env, &address), async {
        let mut raw = Raw::over(listener.accept().await.unwrap().0);
        raw.receive().await.unwrap().body
    });
    let hello = Hello::decode(&hello[..]).unwrap();
    assert_eq!(hello.reply_window, limits::REPLY_WINDOW_MIN);
}
