//! Explicit prefetch and release of ranges of a view, against real servers with disk counters.

use crate::common;

use bytes::Bytes;
use common::TestVolume;
use weft_client::{Access, NewLayout, OpenView};
use weft_layout::{CellIndex, View, ViewOffset};
use weft_proto::Kind;
use weft_store::CounterSnapshot;

const CELL: u64 = 1 << 20;

fn counters(test: &TestVolume, server: usize) -> CounterSnapshot {
    let node = test.servers[server].as_ref().unwrap();
    node.store().unwrap().counters()
}

/// A file of two cells of 1 MiB, one on each server; every byte is its cell's number plus one.
async fn written(test: &TestVolume) -> weft_client::File {
    let volume = test.client().await;
    let layout = NewLayout {
        cells: Some(2),
        bsu: Some(4096),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    let file = volume.attach("/advised", access).await.unwrap();
    for cell in 0..2 {
        let view = file.view(View::Cell(CellIndex(cell))).unwrap();
        let data = Bytes::from(vec![cell as u8 + 1; CELL as usize]);
        view.write_at(ViewOffset(0), data).await.unwrap();
    }
    file
}

async fn read(view: &OpenView, at: u64, length: usize) -> Vec<u8> {
    let mut buffer = vec![0; length];
    view.read_at(ViewOffset(at), &mut buffer).await.unwrap();
    buffer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefetch_asks_only_the_servers_of_its_range_and_later_reads_hit_memory() {
    let mut test = TestVolume::start(2).await;
    let file = written(&test).await;
    file.sync().await.unwrap();
    for server in 0..2 {
        test.stop_server(server).await;
        test.start_server(server).await;
    }
    let second = file.view(View::Cell(CellIndex(1))).unwrap();
    let home = file.layout().server_of(CellIndex(1)).0 as usize;
    let before = [counters(&test, 0), counters(&test, 1)];
    assert_eq!(
        second.prefetch(ViewOffset(0), CELL / 2).await.unwrap(),
        CELL / 2
    );
    let after = [counters(&test, 0), counters(&test, 1)];
    assert_eq!(
        after[home].disk_read_bytes - before[home].disk_read_bytes,
        CELL / 2
    );
    assert_eq!(
        after[1 - home],
        before[1 - home],
        "the prefetch used the other server"
    );

    // Prefetched ranges cause no further disk reads; other ranges do. No read waits for the
    // server's own read-ahead.
    let reads = |test: &TestVolume| counters(test, home).cache_misses;
    let fetched = reads(&test);
    assert_eq!(
        read(&second, 0, CELL as usize / 4).await,
        vec![2; CELL as usize / 4]
    );
    assert_eq!(
        read(&second, CELL / 4, CELL as usize / 4).await,
        vec![2; CELL as usize / 4]
    );
    assert_eq!(reads(&test), fetched);
    assert_eq!(read(&second, CELL - 4096, 4096).await, vec![2; 4096]);
    assert!(reads(&test) > fetched);

    // Through any view, each server that holds part of the range gets one request.
    let volume = test.client().await;
    let again = volume.attach("/advised", Access::read()).await.unwrap();
    let canonical = again.canonical().unwrap();
    canonical.prefetch(ViewOffset(0), 2 * CELL).await.unwrap();
    assert_eq!(volume.counters().calls_of(Kind::Advise), 2);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_range_is_written_to_its_place_and_keeps_its_content() {
    let test = TestVolume::start(2).await;
    let file = written(&test).await;
    let first = file.view(View::Cell(CellIndex(0))).unwrap();
    let home = file.layout().server_of(CellIndex(0)).0 as usize;
    // Small writes go to the log and to memory first, not to their place.
    for i in 0..64 {
        let at = ViewOffset(i * 8192);
        first.write_at(at, vec![9; 4096].into()).await.unwrap();
    }
    let before = counters(&test, home).disk_write_bytes;
    first.release(ViewOffset(0), CELL / 2).await.unwrap();
    let written = counters(&test, home).disk_write_bytes - before;
    assert!(
        written >= 64 * 4096,
        "{written} bytes were written to their place"
    );
    let found = read(&first, 0, CELL as usize).await;
    for (i, block) in found.chunks(4096).enumerate() {
        let byte = if i < 128 && i % 2 == 0 { 9 } else { 1 };
        assert!(block.iter().all(|b| *b == byte), "block {i}");
    }
    test.stop().await;
}
