//! Payload from server to client: the reply's window limits the server, and a large transfer never
//! blocks a small one.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::*;
use weft_net::{Connection, Incoming, Served};
use weft_proto::io::{ReadReply, ReadRequest};
use weft_proto::{Code, Failure, Kind, limits};

async fn drain(incoming: &mut Incoming<ReadRequest>) -> usize {
    let mut bytes = 0;
    while let Some(chunk) = within(incoming.next()).await.unwrap() {
        assert_eq!(chunk, pattern(bytes, chunk.len()));
        bytes += chunk.len();
    }
    bytes
}

async fn fetch(connection: &Connection, bytes: u64) -> Incoming<ReadRequest> {
    let (head, incoming) = within(connection.fetch(&read(bytes))).await.unwrap();
    assert_eq!(head.bytes, bytes);
    incoming
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_of_every_size_arrive_whole_and_in_order() {
    let server = Server::usual().await;
    let connection = server.connect().await;
    for bytes in [
        0,
        1,
        100,
        16 << 10,
        (16 << 10) + 1,
        64 << 10,
        256 << 10,
        (256 << 10) + 1,
        20 << 20,
    ] {
        let mut incoming = fetch(&connection, bytes).await;
        assert_eq!(drain(&mut incoming).await as u64, bytes);
        assert!(
            within(incoming.next()).await.unwrap().is_none(),
            "a finished stream stays at its end"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn payload_larger_than_a_frame_is_split() {
    let server = Server::start(Options::default(), |mut call: Served| async move {
        let _ = stream(&mut call.reply, 7 << 20, 3 << 20).await;
    })
    .await;
    let connection = server.connect().await;
    let (_, mut incoming) = within(connection.fetch(&read(0))).await.unwrap();
    assert_eq!(drain(&mut incoming).await, 7 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_a_reply_stalls_only_that_reply() {
    let server = Server::usual().await;
    let connection = server.connect().await;
    let mut untaken = Vec::new();
    for _ in 0..4 {
        untaken.push(fetch(&connection, 16 << 20).await);
    }
    let sent = || server.counters.snapshot().bytes_sent;
    let bound = 4 * u64::from(limits::REPLY_WINDOW_MIN);
    until("the windows are used up", || sent() >= bound).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(
        sent() <= bound + 4096,
        "sent {} bytes of {bound} allowed",
        sent()
    );

    within(connection.call(&sync(1))).await.unwrap();
    let mut other = fetch(&connection, 10 << 20).await;
    assert_eq!(drain(&mut other).await, 10 << 20);
    for incoming in &mut untaken {
        assert_eq!(drain(incoming).await, 16 << 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_calls_overtake_large_transfers() {
    let server = Server::usual().await;
    let connection = server.connect().await;
    let done = Arc::new(AtomicBool::new(false));
    let large = (0..2).map(|_| {
        let (connection, done) = (connection.clone(), done.clone());
        tokio::spawn(async move {
            let mut incoming = fetch(&connection, 300 << 20).await;
            let mut bytes = 0;
            while let Some(chunk) = within(incoming.next()).await.unwrap() {
                bytes += chunk.len();
            }
            done.store(true, Ordering::SeqCst);
            bytes
        })
    });
    let large = large.collect::<Vec<_>>();
    let received = || server.counters.snapshot().bytes_sent;
    until("the transfers are under way", || received() > 4 << 20).await;
    for i in 0..50 {
        within(connection.call(&sync(i))).await.unwrap();
    }
    assert!(
        !done.load(Ordering::SeqCst),
        "50 small calls took as long as a transfer of 300 MiB"
    );
    for large in large {
        assert_eq!(within(large).await.unwrap(), 300 << 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_in_the_middle_of_a_stream_reaches_the_client() {
    let server = Server::start(Options::default(), |mut call: Served| async move {
        if call.kind == Kind::Read {
            let head = ReadReply {
                bytes: 5 << 20,
                ..ReadReply::default()
            };
            call.reply
                .head(&head, vec![pattern(0, 1 << 20)], false)
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            call.reply.fail(&Failure::new(
                Code::Corrupt,
                "chunk 7 does not match its checksum",
            ));
        }
    })
    .await;
    let connection = server.connect().await;
    let (_, mut incoming) = within(connection.fetch(&read(0))).await.unwrap();
    assert_eq!(
        within(incoming.next()).await.unwrap().unwrap().len(),
        1 << 20
    );
    for _ in 0..2 {
        let error = within(incoming.next()).await.unwrap_err();
        assert_eq!(
            error.code(),
            Code::Corrupt,
            "every further read fails alike"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn receiving_can_be_cancelled_without_losing_bytes() {
    let server = Server::start(Options::default(), |mut call: Served| async move {
        let head = ReadReply::default();
        call.reply.head(&head, Vec::new(), false).await.unwrap();
        for i in 0..40 {
            tokio::time::sleep(Duration::from_millis(3)).await;
            call.reply
                .data(vec![pattern(i * 1000, 1000)], i == 39)
                .await
                .unwrap();
        }
    })
    .await;
    let connection = server.connect().await;
    let (_, mut incoming) = within(connection.fetch(&read(0))).await.unwrap();
    let mut bytes = 0;
    loop {
        match tokio::time::timeout(Duration::from_millis(1), incoming.next()).await {
            Err(_) => {}
            Ok(chunk) => match chunk.unwrap() {
                Some(chunk) => {
                    assert_eq!(chunk, pattern(bytes, chunk.len()));
                    bytes += chunk.len();
                }
                None => break,
            },
        }
    }
    assert_eq!(bytes, 40_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_changed_after_their_checksum_fail_the_call() {
    use weft_net::ReplyPayload;
    for (length, at) in [(5000, 17), (5 << 20, 3 << 20), (5 << 20, (5 << 20) - 1)] {
        let server = Server::start(Options::default(), move |mut call: Served| async move {
            let good = pattern(0, length);
            let sum = Some(weft_sum::of(&good));
            let mut bytes = good.to_vec();
            if call.kind == Kind::Read {
                bytes[at] ^= 1;
            }
            let reply_payload = ReplyPayload {
                parts: vec![bytes.into()],
                sum,
            };
            // The client ends the connection when the bytes do not match their checksum.
            let _ = call
                .reply
                .head(&ReadReply::default(), reply_payload, true)
                .await;
        })
        .await;
        let connection = server.connect().await;
        let fetched = within(connection.fetch(&read(0))).await;
        let error = match fetched {
            Err(error) => error,
            Ok((_, mut incoming)) => loop {
                match within(incoming.next()).await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("the changed bytes were delivered"),
                    Err(error) => break error,
                }
            },
        };
        assert!(error.to_string().contains("damaged on the way"), "{error}");
    }
}
