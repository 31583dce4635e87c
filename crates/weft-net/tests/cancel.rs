//! Calls, replies and payloads dropped midway return their places and windows, and the connection
//! stays usable.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::*;
use tokio::time::timeout;
use weft_net::{Bounds, Connection, Served};
use weft_proto::io::{ReadReply, WriteRequest};
use weft_proto::session::{Cancel, Nothing};
use weft_proto::{Code, Failure, Flags, Kind, prost::Message};

/// A server of `calls` concurrent calls, where a `Read` runs until it is cancelled; and the number
/// of cancelled reads.
async fn narrow(calls: u32) -> (Server, Arc<AtomicUsize>) {
    let bounds = Bounds {
        calls,
        ..Bounds::default()
    };
    let cancelled = Arc::new(AtomicUsize::new(0));
    let seen = cancelled.clone();
    let server = Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        move |call| {
            let seen = seen.clone();
            async move {
                if call.kind != Kind::Read {
                    return standard(call).await;
                }
                while !call.reply.cancelled() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                seen.fetch_add(1, Ordering::SeqCst);
            }
        },
    )
    .await;
    (server, cancelled)
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_calls_free_their_places_and_cancel_on_the_server() {
    let (server, cancelled) = narrow(4).await;
    let connection = server.connect().await;
    for _ in 0..12 {
        let dropped = timeout(Duration::from_millis(10), connection.fetch(&read(1))).await;
        assert!(dropped.is_err());
    }
    within(connection.call(&sync(1))).await.unwrap();
    until("the service sees each cancel", || {
        cancelled.load(Ordering::SeqCst) >= 12
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_overtakes_the_cancel_that_freed_its_place() {
    let (server, _) = narrow(2).await;
    let connection = server.connect().await;
    // An upload keeps bulk data queued, behind which a cancel might wait.
    let up = connection.clone();
    let uploading = tokio::spawn(async move {
        let mut out = up.send(&write(1), Vec::new(), false).await.unwrap();
        for i in 0.. {
            out.more(vec![pattern(i << 20, 1 << 20)], false)
                .await
                .unwrap();
        }
    });
    for i in 0..200 {
        let _ = timeout(Duration::from_micros(500), connection.fetch(&read(1))).await;
        within(connection.call(&sync(i))).await.unwrap();
    }
    uploading.abort();
    let _ = uploading.await;
    within(connection.call(&sync(1))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_can_be_cancelled_faster_than_the_service_ends_them() {
    let bounds = Bounds {
        calls: 4,
        ..Bounds::default()
    };
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (running, peak) = (now.clone(), most.clone());
    let server = Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        move |call| {
            let (running, peak) = (running.clone(), peak.clone());
            async move {
                peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(100)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                standard(call).await;
            }
        },
    )
    .await;
    let connection = server.connect().await;
    for _ in 0..40 {
        let _ = timeout(Duration::from_millis(2), connection.call(&sync(1))).await;
    }
    within(connection.call(&sync(7))).await.unwrap();
    assert!(
        most.load(Ordering::SeqCst) <= 4,
        "a place is free only after its call has ended"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_an_incoming_reply_stops_the_stream() {
    let gone = Arc::new(AtomicUsize::new(0));
    let seen = gone.clone();
    let bounds = Bounds {
        calls: 2,
        ..Bounds::default()
    };
    let server = Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        move |mut call: Served| {
            let seen = seen.clone();
            async move {
                if call.kind != Kind::Read {
                    return standard(call).await;
                }
                if stream(&mut call.reply, 1 << 30, 256 << 10).await.is_err() {
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            }
        },
    )
    .await;
    let connection = server.connect().await;
    for taken in 0..10 {
        let (_, mut incoming) = within(connection.fetch(&read(0))).await.unwrap();
        for _ in 0..taken * 3 {
            within(incoming.next()).await.unwrap().unwrap();
        }
        drop(incoming);
        within(connection.call(&sync(taken))).await.unwrap();
    }
    until("every stream ended early", || {
        gone.load(Ordering::SeqCst) == 10
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_an_outgoing_payload_ends_its_stream_at_the_service() {
    let bounds = Bounds {
        calls: 2,
        ..Bounds::default()
    };
    let (told, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        move |mut call: Served| {
            let told = told.clone();
            async move {
                if call.kind != Kind::Write {
                    return standard(call).await;
                }
                let announced = call.request::<WriteRequest>().unwrap().bytes;
                let mut bytes = 0;
                while let Some(chunk) = call.payload.next().await {
                    bytes += chunk.len() as u64;
                    call.payload.release();
                }
                told.send((bytes < announced, call.reply.cancelled()))
                    .unwrap();
            }
        },
    )
    .await;
    let connection = server.connect().await;
    for frames in 0..20usize {
        let request = WriteRequest {
            bytes: 1 << 40,
            ..write(1)
        };
        let mut out = within(connection.send(&request, Vec::new(), false))
            .await
            .unwrap();
        for _ in 0..frames {
            within(out.more(vec![pattern(0, 256 << 10)], false))
                .await
                .unwrap();
        }
        drop(out);
        let end = within(ends.recv()).await.unwrap();
        assert_eq!(
            end,
            (true, true),
            "the stream ends early and the call is cancelled"
        );
        within(connection.call(&sync(1))).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_abandoned_while_waiting_return_their_window() {
    let bounds = Bounds {
        window: 1 << 20,
        ..Bounds::default()
    };
    let server = Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        |call: Served| async move {
            let stuck = call
                .request::<WriteRequest>()
                .is_ok_and(|r| r.access.file == 1);
            if call.kind != Kind::Write || !stuck {
                return standard(call).await;
            }
            while !call.reply.cancelled() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        },
    )
    .await;
    let connection = server.connect().await;
    let upload = async |connection: Connection, file, bytes| {
        let sent = connection
            .send(&write(file), vec![pattern(0, bytes)], true)
            .await?;
        sent.reply().await
    };
    for round in 0..30u64 {
        let stuck = upload(connection.clone(), 1, 4 << 20);
        let _ = timeout(Duration::from_millis(round), stuck).await;
        let reply = within(upload(connection.clone(), 2, 3 << 20))
            .await
            .unwrap();
        assert_eq!(reply.bytes, 3 << 20);
    }
}

#[tokio::test]
async fn a_cancelled_call_gets_the_reply_cancelled() {
    let (server, _) = narrow(4).await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    raw.send(Kind::Read, Flags::LAST, 20, &read(1), &[]).await;
    raw.send(Kind::Cancel, Flags::LAST, 20, &Cancel { request: 20 }, &[])
        .await;
    let frame = raw.receive().await.unwrap();
    let end = Flags::REPLY.with(Flags::LAST).with(Flags::FAILED);
    assert_eq!((frame.header.request, frame.header.flags), (20, end));
    assert_eq!(
        Failure::decode(&frame.body[..]).unwrap().code(),
        Code::Cancelled
    );
}

#[tokio::test]
async fn cancels_of_unknown_calls_and_data_after_a_cancel_are_dropped() {
    let (server, _) = narrow(4).await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    raw.send(Kind::Cancel, Flags::LAST, 20, &Cancel { request: 20 }, &[])
        .await;
    raw.send(Kind::Write, Flags::default(), 20, &write(1), &[])
        .await;
    raw.send(Kind::Cancel, Flags::LAST, 20, &Cancel { request: 20 }, &[])
        .await;
    // More than all windows hold: data of a cancelled call takes no window.
    for _ in 0..20 {
        raw.send(
            Kind::Data,
            Flags::default(),
            20,
            &Nothing {},
            &vec![0; 1 << 20],
        )
        .await;
    }
    raw.send(Kind::Sync, Flags::LAST, 21, &sync(5), &[]).await;
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let frame = raw.receive().await.expect("the connection stays open");
        if frame.header.kind != Kind::Credit {
            ends.push(frame.header.request);
        }
    }
    ends.sort_unstable();
    assert_eq!(ends, [20, 21]);
}

#[tokio::test]
async fn a_reply_dropped_while_it_waits_for_room_still_ends_its_call() {
    let bounds = Bounds {
        calls: 40,
        ..Bounds::default()
    };
    let server = Server::start(
        Options {
            bounds,
            ..Options::default()
        },
        |mut call| async move {
            let sending = async {
                call.reply
                    .head(&ReadReply::default(), Vec::new(), false)
                    .await
                    .unwrap();
                let _ = call.reply.data(vec![pattern(0, 1 << 20)], true).await;
            };
            let _ = timeout(Duration::from_millis(100), sending).await;
        },
    )
    .await;
    let (mut raw, _) = Raw::prove(&server.address).await;
    // The client reads nothing for a while, so that socket and queue fill up.
    for id in 10..40 {
        raw.send(Kind::Read, Flags::LAST, id, &read(1), &[]).await;
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    let mut ended = Vec::new();
    while ended.len() < 30 {
        let frame = raw.receive().await.expect("every call ends");
        if frame.header.flags.has(Flags::LAST) {
            ended.push(frame.header.request);
        }
    }
    ended.sort_unstable();
    assert_eq!(
        ended,
        (10..40).collect::<Vec<_>>(),
        "every call ends exactly once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn random_drops_leave_a_connection_with_all_its_places_and_window() {
    let bounds = Bounds {
        calls: 8,
        window: 256 << 10,
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
    let tasks = (0..16u64).map(|task| {
        let connection = connection.clone();
        tokio::spawn(async move {
            for i in 0..40 {
                let patience = Duration::from_micros((task * 131 + i * 977) % 3000);
                let work = async {
                    match (task + i) % 3 {
                        0 => drop(connection.call(&sync(i)).await.unwrap()),
                        1 => {
                            let (_, mut incoming) = connection.fetch(&read(3 << 20)).await.unwrap();
                            while incoming.next().await.unwrap().is_some() {}
                        }
                        _ => {
                            let data = vec![pattern(0, 1 << 20)];
                            let sent = connection.send(&write(2), data, true).await.unwrap();
                            sent.reply().await.unwrap();
                        }
                    }
                };
                let _ = timeout(patience, work).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        within(task).await.unwrap();
    }
    // All places and the whole window are free again: as many uploads run at once as there are
    // places.
    let uploads = (0..8).map(|_| {
        let connection = connection.clone();
        tokio::spawn(async move {
            let data = vec![pattern(0, 1 << 20)];
            let sent = connection.send(&write(2), data, true).await.unwrap();
            sent.reply().await.unwrap().bytes
        })
    });
    for upload in uploads.collect::<Vec<_>>() {
        assert_eq!(within(upload).await.unwrap(), 1 << 20);
    }
}
