//! Queries for the ranges of a file that hold data, against real servers.

use crate::common;

use std::ops::Range;

use common::TestVolume;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_client::{Access, File, NewLayout, Volume};
use weft_layout::{CellIndex, FileOffset, View, ViewOffset};

async fn create(volume: &Volume, path: &str, cells: u32, bsu: u64) -> File {
    let layout = NewLayout {
        cells: Some(cells),
        bsu: Some(bsu),
        chunk: Some(4096),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

async fn ranges(file: &File, from: u64, hole: u64) -> Vec<Range<u64>> {
    let mut ranges = file.data_ranges(FileOffset(from), hole);
    let (mut out, mut end) = (Vec::<Range<u64>>::new(), from);
    while let Some(range) = ranges.next().await.unwrap() {
        assert!(
            range.start >= end && !range.is_empty(),
            "{range:?} after {end}"
        );
        end = range.end;
        match out.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => out.push(range),
        }
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn data_ranges_contain_all_data_and_few_holes() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let mut rng = SmallRng::seed_from_u64(7);
    for (i, (cells, bsu)) in [(1, 65_536), (5, 100), (7, 4096), (4, 65_536), (2, 1 << 20)]
        .into_iter()
        .enumerate()
    {
        let file = create(&volume, &format!("/{i}"), cells, bsu).await;
        let open = file.canonical().unwrap();
        // Ranges far apart, ranges close together, and more chunks than one reply lists.
        let mut written = vec![(0, 1), (1 << 30, 300_000), (1 << 42, 16 << 20)];
        written
            .extend((0..40).map(|_| (rng.random_range(0..50 << 20), rng.random_range(1..50_000))));
        for &(at, length) in &written {
            let data = vec![7; length as usize];
            open.write_at(ViewOffset(at), data.into()).await.unwrap();
        }
        let row = u64::from(cells) * bsu;
        let most = written.iter().map(|(_, length)| {
            length + 2 * 4096 * u64::from(cells) + if bsu < 4096 { 2 * row } else { 0 }
        });
        let exact = ranges(&file, 0, 0).await;
        let total: u64 = exact.iter().map(|r| r.end - r.start).sum();
        assert!(
            total <= most.sum(),
            "{cells} cells, BSU {bsu}: {total} bytes"
        );
        let rough = ranges(&file, 0, 1 << 20).await;
        assert!(rough.len() < exact.len());
        for (at, length) in written {
            for ranges in [&exact, &rough] {
                let holds = |r: &Range<u64>| r.start <= at && at + length <= r.end;
                assert!(
                    ranges.iter().any(holds),
                    "{cells} cells, BSU {bsu}: {length} bytes at {at}"
                );
            }
        }
        let behind = ranges(&file, (1 << 30) + 5, 0).await;
        assert_eq!(behind[0].start, (1 << 30) + 5);
        assert_eq!(behind.last(), exact.last());
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finding_data_costs_one_request_per_server_whatever_the_cells_and_holes() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let file = create(&volume, "/file", 60, 4096).await;
    let far = (1 << 62) / 60 / 4096 * 4096;
    for cell in (0..60).step_by(7) {
        let view = file.view(View::Cell(CellIndex(cell))).unwrap();
        for at in [0, 1 << 41, far] {
            view.write_at(ViewOffset(at), b"data"[..].into())
                .await
                .unwrap();
        }
    }
    let before = volume.counters();
    let found = ranges(&file, 0, 0).await;
    assert_eq!(volume.counters().calls_total() - before.calls_total(), 3);
    assert_eq!(found.len(), 27);
    assert!(volume.counters().bytes_sent - before.bytes_sent < 3 * 100);

    // Data beyond the reach of the canonical order is left out; a file without data has no ranges.
    let cell = file.view(View::Cell(CellIndex(3))).unwrap();
    cell.write_at(ViewOffset(1 << 62), b"lost"[..].into())
        .await
        .unwrap();
    assert_eq!(ranges(&file, 0, 0).await, found);
    file.truncate(1 << 62).await.unwrap();
    file.truncate(0).await.unwrap();
    assert_eq!(ranges(&file, 0, 0).await, []);
    file.truncate(1 << 62).await.unwrap();
    assert_eq!(ranges(&file, 0, 0).await, []);
    test.stop().await;
}
