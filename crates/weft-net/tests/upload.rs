//! Payload from client to server: the window limits the sender, and no call blocks another.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use common::*;
use tokio::sync::Semaphore;
use weft_net::{Bounds, CallError, Served};
use weft_proto::io::{WriteReply, WriteRequest};
use weft_proto::{Code, Failure, limits};

const WINDOW: u32 = 1 << 20;

/// A server whose `Write` of file 1 consumes one frame of its payload per permit of `gate`.
async fn gated(gate: Arc<Semaphore>) -> Server {
    let bounds = Bounds {
        window: WINDOW,
        ..Bounds::default()
    };
    Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        move |mut call: Served| {
            let gate = gate.clone();
            async move {
                let gated = call
                    .request::<WriteRequest>()
                    .is_ok_and(|r| r.access.file == 1);
                if !gated {
                    return standard(call).await;
                }
                let mut bytes = 0;
                loop {
                    match gate.acquire().await {
                        Ok(permit) => permit.forget(),
                        Err(_) => break,
                    }
                    let Some(chunk) = call.payload.next().await else {
                        break;
                    };
                    bytes += chunk.len() as u64;
                    drop(chunk);
                    call.payload.release();
                }
                call.reply.done(&WriteReply {
                    bytes,
                    ..WriteReply::default()
                });
            }
        },
    )
    .await
}

async fn write_all(connection: &weft_net::Connection, file: u64, frames: usize) -> u64 {
    let mut out = connection
        .send(&write(file), Vec::new(), frames == 0)
        .await
        .unwrap();
    for i in 0..frames {
        out.more(vec![pattern(i << 18, 1 << 18)], i + 1 == frames)
            .await
            .unwrap();
    }
    out.reply().await.unwrap().bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_upload_arrives_whole_and_in_order() {
    let server = Server::usual().await;
    let connection = server.connect().await;
    assert_eq!(within(write_all(&connection, 2, 160)).await, 40 << 20);
    // A piece of any length is split into frames.
    let parts = vec![
        pattern(0, 100),
        pattern(100, 3 << 20),
        pattern(100 + (3 << 20), 5),
    ];
    let sent = within(connection.send(&write(2), parts, true))
        .await
        .unwrap();
    assert_eq!(within(sent.reply()).await.unwrap().bytes, 105 + (3 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_upload_is_served() {
    let server = Server::usual().await;
    let connection = server.connect().await;
    assert_eq!(within(write_all(&connection, 2, 0)).await, 0);
    let mut out = within(connection.send(&write(2), Vec::new(), false))
        .await
        .unwrap();
    within(out.more(Vec::new(), false)).await.unwrap();
    within(out.more(Vec::new(), true)).await.unwrap();
    assert_eq!(within(out.reply()).await.unwrap().bytes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_waits_for_the_service_to_consume() {
    let gate = Arc::new(Semaphore::new(0));
    let server = gated(gate.clone()).await;
    let connection = server.connect().await;
    let writing = {
        let connection = connection.clone();
        tokio::spawn(async move { write_all(&connection, 1, 64).await })
    };
    let received = || server.counters.snapshot().bytes_received;
    let bound = u64::from(WINDOW + limits::CALL_WINDOW);
    until("the window is used", || received() >= u64::from(WINDOW)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(
        received() <= bound + 4096,
        "received {} bytes of {bound} granted",
        received()
    );
    assert!(!writing.is_finished());
    let stalled = received();
    gate.add_permits(2);
    until("the sender continues", || received() > stalled).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(
        received() < stalled + (1 << 20),
        "the sender sent more than was consumed"
    );
    gate.add_permits(10_000);
    assert_eq!(within(writing).await.unwrap(), 16 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn releasing_a_chunk_returns_only_its_own_window() {
    let bounds = Bounds {
        window: WINDOW,
        ..Bounds::default()
    };
    let options = Options {
        bounds,
        ..Options::default()
    };
    // The service releases the first chunk and holds all others.
    let server = Server::start(options, |mut call: Served| async move {
        let call = &mut call;
        let mut held = Vec::new();
        while let Some(chunk) = call.payload.next().await {
            if held.is_empty() {
                call.payload.release_chunk(chunk.len());
            }
            held.push(chunk);
        }
    })
    .await;
    let connection = server.connect().await;
    let writing = tokio::spawn(async move { write_all(&connection, 1, 64).await });
    let received = || server.counters.snapshot().bytes_received;
    until("the window is used", || received() >= u64::from(WINDOW)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let bound = u64::from(WINDOW + limits::CALL_WINDOW) + (256 << 10);
    assert!(
        received() <= bound + 4096,
        "received {} bytes of {bound} granted",
        received()
    );
    assert!(received() > u64::from(WINDOW + limits::CALL_WINDOW));
    writing.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unconsumed_upload_does_not_block_other_calls() {
    let gate = Arc::new(Semaphore::new(0));
    let server = gated(gate.clone()).await;
    let connection = server.connect().await;
    let stuck = (0..5).map(|_| {
        let connection = connection.clone();
        tokio::spawn(async move { write_all(&connection, 1, 64).await })
    });
    let stuck = stuck.collect::<Vec<_>>();
    let received = || server.counters.snapshot().bytes_received;
    until("the window is used up", || received() >= u64::from(WINDOW)).await;
    within(connection.call(&sync(1))).await.unwrap();
    let small = within(connection.send(&write(2), vec![pattern(0, 50_000)], true))
        .await
        .unwrap();
    assert_eq!(within(small.reply()).await.unwrap().bytes, 50_000);
    assert_eq!(within(write_all(&connection, 2, 32)).await, 8 << 20);
    gate.close();
    for stuck in stuck {
        within(stuck).await.unwrap();
    }
    assert_eq!(within(write_all(&connection, 2, 32)).await, 8 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_smaller_than_a_frame_is_enough() {
    for window in [0, 1, 10_000, 64 << 10] {
        let bounds = Bounds {
            window,
            ..Bounds::default()
        };
        let server = Server::start(
            Options {
                bounds,
                ..Options::default()
            },
            standard,
        )
        .await;
        let connection = server.connect().await;
        let uploads = (0..4).map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move {
                let data = vec![pattern(0, 2 << 20)];
                let sent = connection.send(&write(2), data, true).await.unwrap();
                sent.reply().await.unwrap().bytes
            })
        });
        for upload in uploads.collect::<Vec<_>>() {
            assert_eq!(within(upload).await.unwrap(), 2 << 20, "window {window}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_uploads_share_the_window_and_all_arrive() {
    let server = gated(Arc::new(Semaphore::new(0))).await;
    let connection = server.connect().await;
    let uploads = (0..60usize).map(|i| {
        let connection = connection.clone();
        tokio::spawn(async move { (i, write_all(&connection, 2, i % 12).await) })
    });
    for upload in uploads.collect::<Vec<_>>() {
        let (i, bytes) = within(upload).await.unwrap();
        assert_eq!(bytes, (i as u64 % 12) << 18);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_failure_releases_a_waiting_sender() {
    let server = Server::start(Options::default(), |call: Served| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        // The service still holds the payload, so only the end of the call returns its window.
        let Served { payload, reply, .. } = call;
        reply.fail(&Failure::new(Code::NoSpace, "full"));
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(payload);
    })
    .await;
    let connection = server.connect().await;
    for _ in 0..3 {
        let mut out = within(connection.send(&write(1), Vec::new(), false))
            .await
            .unwrap();
        while !out.answered() {
            within(out.more(vec![pattern(0, 1 << 20)], false))
                .await
                .unwrap();
        }
        let error = within(out.reply()).await.unwrap_err();
        assert_eq!(error.code(), Code::NoSpace);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_payload_that_the_service_dropped_is_discarded() {
    let server = Server::start(Options::default(), |call: Served| async move {
        let Served { payload, reply, .. } = call;
        drop(payload);
        tokio::time::sleep(Duration::from_millis(300)).await;
        reply.done(&WriteReply::default());
    })
    .await;
    let connection = server.connect().await;
    assert_eq!(within(write_all(&connection, 1, 40)).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_abandoned_midway_ends_the_call() {
    let gate = Arc::new(Semaphore::new(0));
    let server = gated(gate.clone()).await;
    let connection = server.connect().await;
    let mut out = within(connection.send(&write(1), Vec::new(), false))
        .await
        .unwrap();
    let more = out.more(vec![pattern(0, 8 << 20)], true);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), more)
            .await
            .is_err()
    );
    let error = within(out.more(vec![pattern(0, 1)], true))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Protocol { .. }), "{error:?}");
    let error = within(out.reply()).await.unwrap_err();
    assert!(error.to_string().contains("was cancelled"), "{error}");
    gate.close();
    within(connection.call(&sync(1))).await.unwrap();
}
