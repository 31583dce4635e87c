//! Requests of very many pieces use processor time only while a client waits for them, and none for
//! ranges beyond the end of a file.
//!
//! The tests measure the processor time of the whole process.

use crate::common;

use std::time::Duration;

use bytes::Bytes;
use common::{TestVolume, one_cell as view};
use tokio::sync::Mutex;
use weft_client::Transfer;
use weft_layout::{Pattern, ViewOffset};

/// The processor time of this process, in seconds.
fn used() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split(' ').collect();
    let ticks = |i: usize| fields[i].parse::<f64>().unwrap();
    (ticks(12) + ticks(13)) / 100.0
}

/// Serializes the tests that measure processor time.
static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_many_pieces_delay_no_other_and_stop_when_cancelled() {
    const TIMES: u64 = 25_000_000;
    let _alone = ALONE.lock().await;
    let test = TestVolume::start(1).await;
    let one = test.client().await;
    let holes = view(&one, "/holes").await;
    let end = ViewOffset(8 * TIMES);
    holes
        .write_at(end, Bytes::from_static(b"end"))
        .await
        .unwrap();
    let irregular = Pattern::bytes(1).then(3, Pattern::bytes(1));
    let irregular = irregular.every(8).times(TIMES);
    // Four requests keep the threads of the server busy.
    let reads: Vec<_> = (0..4)
        .map(|_| {
            let transfer = Transfer::of(irregular.clone());
            holes.post_read_with(transfer, vec![0; 2 * TIMES as usize])
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let other = view(&test.client().await, "/other").await;
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let began = std::time::Instant::now();
        let data = Bytes::from_static(b"passes");
        other.write_at(ViewOffset(0), data).await.unwrap();
        other.read_at(ViewOffset(0), &mut [0; 6]).await.unwrap();
        slowest = slowest.max(began.elapsed());
    }
    assert!(
        reads.iter().all(|read| !read.poll()),
        "a read ended too early to delay the other client"
    );
    assert!(slowest < Duration::from_secs(3), "{slowest:?}");
    drop(reads);
    // The process becomes idle soon, however slow the machine is.
    let dropped = used();
    loop {
        let before = used();
        tokio::time::sleep(Duration::from_millis(500)).await;
        if used() - before < 0.1 {
            break;
        }
        assert!(
            used() - dropped < 3.0,
            "dropped reads still use processor time"
        );
    }
    test.stop().await;
}

/// Pieces beyond the end of the file cost no time.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_reaches_far_beyond_the_end_returns_at_once() {
    let _alone = ALONE.lock().await;
    let test = TestVolume::start(1).await;
    let short = view(&test.client().await, "/short").await;
    let data = Bytes::from_static(b"0123456789");
    short.write_at(ViewOffset(0), data).await.unwrap();
    let irregular = Pattern::bytes(1).then(3, Pattern::bytes(1));
    let far = Transfer::of(irregular.every(8).times(100_000_000));
    let mut memory = vec![0; 200_000_000];
    let before = used();
    let read = short.read_with(&far, &mut memory).await.unwrap();
    assert_eq!((read, &memory[..4]), (3, &b"038\0"[..]));
    assert!(used() - before < 1.0);
    test.stop().await;
}
