use futures_util::FutureExt;
use tokio::io::AsyncReadExt;
use weft_proto::{Flags, Header, Kind};

use super::*;

fn queue() -> SendQueue {
    SendQueue::new(Arc::new(Counters::default()))
}

fn frame(kind: Kind, request: u64, payload: usize) -> OutgoingFrame {
    let payload = Some(Bytes::from(vec![0; payload])).filter(|p| !p.is_empty());
    OutgoingFrame {
        payload: payload.into_iter().collect(),
        ..OutgoingFrame::bare(kind, Flags::LAST, request, Vec::new())
    }
}

/// The request ids of the frames, in the order in which the queue writes them.
async fn order(queue: &SendQueue) -> Vec<u64> {
    queue.close("done");
    let (ours, mut theirs) = tokio::io::duplex(64 << 20);
    queue.write_to(Box::new(ours), Duration::from_secs(5)).await;
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).await.unwrap();
    let (mut at, mut ids) = (0, Vec::new());
    while at < bytes.len() {
        let head = bytes[at..at + HEADER_BYTES].try_into().unwrap();
        let header = Header::decode(&head).unwrap();
        at += HEADER_BYTES + (header.body_len + header.payload_len) as usize;
        ids.push(header.request);
    }
    ids
}

#[tokio::test]
async fn urgent_frames_overtake_bulk_and_neither_lane_starves() {
    let queue = queue();
    for id in 0..3 {
        let frame = frame(Kind::Data, 1000 + id, 100 << 10);
        queue.bulk(frame, None).await.unwrap();
    }
    for id in 0..16 {
        queue
            .urgent(frame(Kind::Write, id, 60 << 10), None, SendMode::Queued)
            .unwrap();
    }
    let order = order(&queue).await;
    let bulk = |n: u64| order.iter().position(|id| *id == 1000 + n).unwrap();
    assert_eq!([bulk(0), bulk(1), bulk(2)], [5, 11, 17]);
    let urgent: Vec<u64> = order.into_iter().filter(|id| *id < 1000).collect();
    assert_eq!(urgent, (0..16).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_cancel_is_sent_after_its_call_in_either_lane() {
    let queue = queue();
    let cancel = |id: u64| frame(Kind::Cancel, 100 + id, 0);
    queue.bulk(frame(Kind::Write, 1, 1000), None).await.unwrap();
    queue.control(Lane::Bulk, cancel(1)).unwrap();
    for _ in 0..5 {
        queue
            .urgent(frame(Kind::Write, 3, 60 << 10), None, SendMode::Queued)
            .unwrap();
    }
    queue
        .urgent(frame(Kind::Read, 2, 0), None, SendMode::Queued)
        .unwrap();
    queue.control(Lane::Urgent, cancel(2)).unwrap();
    let order = order(&queue).await;
    let place = |id| order.iter().position(|i| *i == id).unwrap();
    assert!(place(1) < place(101), "{order:?}");
    assert!(place(2) < place(102), "{order:?}");
}

#[tokio::test]
async fn bulk_waits_for_budget_and_a_dropped_wait_sends_nothing() {
    let queue = queue();
    for id in 0..2 {
        queue
            .bulk(frame(Kind::Data, id, 1000 << 10), None)
            .await
            .unwrap();
    }
    let third = queue.bulk(frame(Kind::Data, 2, 1000 << 10), None);
    assert!(
        tokio::time::timeout(Duration::from_millis(20), third)
            .await
            .is_err()
    );
    queue.bulk(frame(Kind::Data, 3, 1), None).await.unwrap();
    assert_eq!(order(&queue).await, [0, 1, 3]);
    assert_eq!(queue.0.counters.snapshot().frames_sent, 3);
}

#[tokio::test]
async fn a_peer_that_does_not_read_closes_the_queue() {
    let queue = queue();
    let pong = || frame(Kind::Ping, 1, 0);
    for _ in 0..CONTROL_FRAMES_MAX {
        queue.control(Lane::Urgent, pong()).unwrap();
    }
    assert!(queue.control(Lane::Urgent, pong()).is_err());
    assert!(queue.closed().await.contains("does not read"));
}

#[tokio::test]
async fn a_direct_sender_writes_at_once_and_the_remainder_follows_in_order() {
    let queue = queue();
    let (ours, mut theirs) = tokio::io::duplex(256);
    let writer = queue.clone();
    let writing = tokio::spawn(async move {
        writer
            .write_to(Box::new(ours), Duration::from_secs(5))
            .await;
    });
    tokio::task::yield_now().await;
    queue
        .urgent(frame(Kind::Read, 1, 0), None, SendMode::Direct)
        .unwrap();
    // The sender wrote the frame itself: no other task has run.
    let mut first = [0; HEADER_BYTES];
    let read = theirs.read_exact(&mut first).now_or_never();
    assert_eq!(read.expect("the frame was written").unwrap(), HEADER_BYTES);
    for id in 2..8 {
        queue
            .urgent(frame(Kind::Write, id, 1000), None, SendMode::Direct)
            .unwrap();
    }
    queue.close("done");
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).await.unwrap();
    writing.await.unwrap();
    let ids: Vec<u64> = bytes
        .chunks(HEADER_BYTES + 1000)
        .map(|frame| {
            let head = frame[..HEADER_BYTES].try_into().unwrap();
            Header::decode(&head).unwrap().request
        })
        .collect();
    assert_eq!(ids, (2..8).collect::<Vec<_>>());
    assert!(
        queue
            .urgent(frame(Kind::Read, 9, 0), None, SendMode::Direct)
            .is_err()
    );
}

#[tokio::test]
async fn a_stuck_stream_is_closed_after_the_grace_period() {
    let queue = queue();
    queue
        .bulk(frame(Kind::Data, 1, 1 << 20), None)
        .await
        .unwrap();
    let (ours, _theirs) = tokio::io::duplex(1024);
    let writer = queue.clone();
    let close_grace = Duration::from_millis(20);
    let writing = tokio::spawn(async move { writer.write_to(Box::new(ours), close_grace).await });
    queue.close("done");
    let ended = tokio::time::timeout(Duration::from_secs(5), writing).await;
    ended.expect("the writer ends").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_senders_and_the_writer_lose_no_wake_up() {
    let queue = queue();
    let (ours, mut theirs) = tokio::io::duplex(4096);
    let writer = queue.clone();
    tokio::spawn(async move {
        writer
            .write_to(Box::new(ours), Duration::from_secs(5))
            .await;
    });
    let senders = (0..8).map(|sender| {
        let queue = queue.clone();
        tokio::spawn(async move {
            for i in 0..500 {
                let frame = frame(Kind::Data, sender, i % 7 * 1000);
                if i % 2 == 0 {
                    queue.bulk(frame, None).await.unwrap();
                } else {
                    let mode = SendMode::for_calls(i / 10 % 8);
                    queue.urgent(frame, None, mode).unwrap();
                }
                if i % 50 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    let closing = queue.clone();
    let senders: Vec<_> = senders.collect();
    let all = tokio::spawn(async move {
        for sender in senders {
            sender.await.unwrap();
        }
        closing.close("done");
    });
    let mut bytes = Vec::new();
    let read = theirs.read_to_end(&mut bytes);
    let read = tokio::time::timeout(Duration::from_secs(20), read).await;
    read.expect("all frames are written before the timeout")
        .unwrap();
    all.await.unwrap();
    let payload: usize = 8 * (0..500).map(|i| i % 7 * 1000).sum::<usize>();
    assert_eq!(bytes.len(), payload + 8 * 500 * HEADER_BYTES);
}

#[tokio::test]
async fn queued_frames_count_as_written_once_the_stream_has_taken_them() {
    let queue = queue();
    let (ours, mut theirs) = tokio::io::duplex(4096);
    let writer = queue.clone();
    let task = tokio::spawn(async move {
        writer
            .write_to(Box::new(ours), Duration::from_secs(5))
            .await;
    });
    tokio::task::yield_now().await;
    queue
        .urgent(frame(Kind::Write, 1, 60 << 10), None, SendMode::Direct)
        .unwrap();
    assert!(
        queue.written().now_or_never().is_none(),
        "the stream takes 4 KiB at a time"
    );
    let mut bytes = vec![0; HEADER_BYTES + (60 << 10)];
    let (_, written) = tokio::join!(theirs.read_exact(&mut bytes), queue.written());
    assert!(written);
    drop(theirs);
    queue
        .urgent(frame(Kind::Write, 2, 0), None, SendMode::Queued)
        .unwrap();
    assert!(!queue.written().await, "the peer is gone");
    task.await.unwrap();
}
