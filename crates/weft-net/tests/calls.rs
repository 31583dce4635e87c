//! Calls without payload: many at once, counted exactly, each failure with a clear error.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::*;
use weft_net::{Bounds, BufferPool, CallError, Connection, Counters};
use weft_proto::meta::{ReadLinkReply, ReadLinkRequest, ReassertRequest};
use weft_proto::{Code, Failure, Kind, Retry, limits};

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_concurrent_calls_each_get_their_own_reply() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (running, peak) = (now.clone(), most.clone());
    let bounds = Bounds {
        calls: 100,
        ..Bounds::default()
    };
    let server = Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        move |call| {
            let (running, peak) = (running.clone(), peak.clone());
            async move {
                peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(1)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                standard(call).await;
            }
        },
    )
    .await;
    let connection = server.connect().await;
    let calls = (0..1000u64).map(|i| {
        let connection = connection.clone();
        tokio::spawn(async move { (i, connection.call(&sync(i)).await.unwrap()) })
    });
    for call in calls.collect::<Vec<_>>() {
        let (i, reply) = within(call).await.unwrap();
        assert_eq!(reply, sync_reply(i));
    }
    assert_eq!(server.counters.snapshot().calls_of(Kind::Sync), 1000);
    let most = most.load(Ordering::SeqCst);
    assert!((2..=100).contains(&most), "{most} calls at once");
}

#[tokio::test]
async fn frames_bytes_and_calls_are_counted_exactly_on_both_sides() {
    let mut env = by_tcp();
    env.timing.ping = TEST_TIMEOUT;
    let options = Options {
        env: env.clone(),
        ..Options::default()
    };
    let server = Server::start(options, standard).await;
    let counters = Arc::new(Counters::default());
    let connection = Connection::open(
        &env,
        &identity(),
        &server.address,
        BufferPool::default(),
        counters.clone(),
    )
    .await
    .unwrap();
    let frames = || {
        let (ours, theirs) = (counters.snapshot(), server.counters.snapshot());
        assert_eq!(ours.frames_received, theirs.frames_sent);
        assert_eq!(ours.bytes_received, theirs.bytes_sent);
        assert_eq!(ours.calls, theirs.calls);
        (ours.frames_sent, ours.frames_received)
    };
    assert_eq!(
        frames(),
        (2, 2),
        "the handshake is hello and proof, challenge and welcome"
    );

    within(connection.call(&sync(1))).await.unwrap();
    assert_eq!(frames(), (3, 3));

    let (_, mut incoming) = within(connection.fetch(&read(1 << 20))).await.unwrap();
    while within(incoming.next()).await.unwrap().is_some() {}
    drop(incoming);
    assert_eq!(frames(), (4, 7), "the reply takes four frames of 256 KiB");

    let upload = async |parts: Vec<Bytes>| {
        let sent = connection.send(&write(1), parts, true).await.unwrap();
        sent.reply().await.unwrap().bytes
    };
    // A small upload in one piece takes one frame each way and no credit.
    assert_eq!(within(upload(vec![pattern(0, 60_000)])).await, 60_000);
    assert_eq!(frames(), (5, 8));
    let parts = vec![pattern(0, 100_000), pattern(100_000, 200_000)];
    assert_eq!(within(upload(parts)).await, 300_000);
    assert_eq!(
        frames(),
        (6, 10),
        "the upload takes one frame up, and a credit and the reply down"
    );

    let ours = counters.snapshot();
    let expected = [(Kind::Read, 1), (Kind::Write, 2), (Kind::Sync, 1)];
    assert_eq!(ours.calls, expected);
    assert_eq!(ours.calls_total(), 4);
    assert_eq!(ours.bytes_sent, server.counters.snapshot().bytes_received);
    let payload = 360_000;
    let rest = ours.bytes_sent - payload;
    assert!(rest < 6 * 200, "{rest} bytes of headers and bodies");
}

#[tokio::test]
async fn a_failure_arrives_with_code_errno_and_retry_class() {
    let server = Server::start(Options::default(), |call| async move {
        call.reply
            .fail(&Failure::new(Code::NoSpace, "the disk of server 3 is full"));
    })
    .await;
    let error = within(server.connect().await.call(&sync(1)))
        .await
        .unwrap_err();
    let CallError::Failed(failure) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(
        (failure.code(), failure.errno, failure.retry()),
        (Code::NoSpace, 28, Retry::Never)
    );
    assert_eq!((error.code(), error.retry()), (Code::NoSpace, Retry::Never));
    assert_eq!(error.to_string(), "the disk of server 3 is full");
}

#[tokio::test]
async fn a_call_that_its_service_drops_or_panics_on_is_answered_with_an_error() {
    let server = Server::start(Options::default(), |call| async move {
        assert!(call.kind != Kind::Sync, "the test causes this panic");
        drop(call);
    })
    .await;
    let connection = server.connect().await;
    for _ in 0..3 {
        let error = within(connection.call(&sync(1))).await.unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        let error = within(connection.call(&ReadLinkRequest::default()))
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("gave no answer to ReadLink"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_oversized_body_is_an_error_on_either_side() {
    let server = Server::start(Options::default(), |call| async move {
        let text = Bytes::from(vec![1; 2 << 20]);
        call.reply.done(&ReadLinkReply { text });
    })
    .await;
    let connection = server.connect().await;
    let error = within(connection.call(&ReadLinkRequest::default()))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    let long = ReassertRequest {
        reading: vec![u64::MAX; 200_000],
        writing: Vec::new(),
        ..ReassertRequest::default()
    };
    let error = within(connection.call(&long)).await.unwrap_err();
    assert_eq!(error.code(), Code::Invalid);
    assert!(
        error.to_string().contains(&limits::BODY_MAX.to_string()),
        "{error}"
    );
}

#[tokio::test]
async fn an_overlong_failure_message_is_truncated() {
    let server = Server::start(Options::default(), |call| async move {
        call.reply
            .fail(&Failure::new(Code::Io, "ä".repeat(2 << 20)));
    })
    .await;
    let error = within(server.connect().await.call(&sync(1)))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Io);
    assert!((10_000..20_000).contains(&error.to_string().len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_large_requests_in_flight_are_bounded() {
    let server = Server::start(Options::default(), |call| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        standard(call).await;
    })
    .await;
    let connection = server.connect().await;
    // All 40 calls together have 40 MB of bodies, of which 16 MiB may be in flight.
    let calls = (0..40).map(|_| {
        let connection = connection.clone();
        tokio::spawn(async move {
            let mut request = write(1);
            request.access.fork = "f".repeat(1_000_000);
            let sent = connection.send(&request, Vec::new(), true).await.unwrap();
            sent.reply().await.unwrap()
        })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(within(call).await.unwrap().bytes, 0);
    }
}
