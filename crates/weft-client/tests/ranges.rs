//! Clearing and copying ranges on real servers, compared with a buffer in memory.

use crate::common;

use common::TestVolume;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_client::{Access, File, NewLayout, Volume};
use weft_layout::{CellIndex, FileOffset, Order, Subfile, View, ViewOffset};
use weft_proto::{Code, Kind};

async fn create(volume: &Volume, path: &str, cells: u32, bsu: u64, base: u32) -> File {
    let layout = NewLayout {
        cells: Some(cells),
        bsu: Some(bsu),
        chunk: Some(65_536),
        base: Some(base),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

fn noise(rng: &mut SmallRng, length: usize) -> Vec<u8> {
    (0..length).map(|_| rng.random_range(1..=255)).collect()
}

async fn put(file: &File, model: &mut Vec<u8>, at: usize, data: Vec<u8>) {
    model.resize(model.len().max(at + data.len()), 0);
    model[at..at + data.len()].copy_from_slice(&data);
    let open = file.canonical().unwrap();
    open.write_at(ViewOffset(at as u64), data.into())
        .await
        .unwrap();
}

async fn assert_holds(file: &File, model: &[u8], what: &str) {
    assert_eq!(file.size().await.unwrap(), model.len() as u64, "{what}");
    let mut found = vec![0; model.len()];
    let open = file.canonical().unwrap();
    open.read_at(ViewOffset(0), &mut found).await.unwrap();
    let first = found.iter().zip(model).position(|(a, b)| a != b);
    assert_eq!(first, None, "{what}: first difference");
}

async fn stored(file: &File) -> u64 {
    let forks = file.forks().await.unwrap();
    forks.iter().map(|f| f.stored).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn cleared_ranges_are_zeros_and_their_space_is_freed() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let mut rng = SmallRng::seed_from_u64(1);
    for (i, (cells, bsu)) in [(3, 65_536), (5, 4096), (4, 100), (1, 1 << 20)]
        .into_iter()
        .enumerate()
    {
        let file = create(&volume, &format!("/{i}"), cells, bsu, 0).await;
        let mut model = Vec::new();
        let data = noise(&mut rng, 1_500_000);
        put(&file, &mut model, 0, data).await;
        let open = file.canonical().unwrap();
        for round in 0..20 {
            let at = rng.random_range(0..1_600_000);
            let length = rng.random_range(0..200_000);
            open.clear(ViewOffset(at), length).await.unwrap();
            let end = model.len().min((at + length) as usize);
            model[end.min(at as usize)..end].fill(0);
            assert_holds(&file, &model, &format!("layout {i}, round {round}")).await;
        }
        let before = volume.counters().calls_total();
        open.clear(ViewOffset(0), 1 << 62).await.unwrap();
        let calls = volume.counters().calls_total() - before;
        assert_eq!(calls, u64::from(cells.min(3)), "one request per server");
        model.fill(0);
        assert_holds(&file, &model, "all cleared").await;
        assert_eq!(stored(&file).await, 0);
        assert_eq!(file.stat().await.unwrap().size, 1_500_000);
        file.close().await.unwrap();
        assert_eq!(volume.stat(&format!("/{i}")).await.unwrap().size, 1_500_000);
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clearing_through_a_view_touches_nothing_else() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/views", 4, 1000, 0).await;
    let whole = file.canonical().unwrap();
    for view in [
        View::Cell(CellIndex(2)),
        View::Subfile(Subfile {
            vbs: 2,
            vn: 3,
            hbs: 1,
            hn: 2,
            index: 1,
            order: Order::Default,
        }),
    ] {
        let mut expected = vec![7; 100_000];
        let data = expected.clone();
        whole.write_at(ViewOffset(0), data.into()).await.unwrap();
        let open = file.view(view).unwrap();
        open.clear(ViewOffset(333), 5000).await.unwrap();
        for place in 333..5333 {
            let weft_layout::Location::Data(cell, offset) =
                open.map().locate(ViewOffset(place)).unwrap()
            else {
                continue;
            };
            let at = file.layout().grid().canonical(cell, offset).unwrap();
            if at.0 < 100_000 {
                expected[at.0 as usize] = 0;
            }
        }
        assert_holds(&file, &expected, &format!("{view:?}")).await;
    }
    test.stop().await;
}

/// Random copies between two files; returns the bytes that this client sent.
async fn copies(volume: &Volume, from: &File, to: &File, rng: &mut SmallRng, row: u64) -> u64 {
    let (mut source, mut target) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let at = rng.random_range(0..3_000_000);
        let length = rng.random_range(1..600_000);
        let data = noise(rng, length);
        put(from, &mut source, at, data).await;
        let at = rng.random_range(0..2_000_000);
        let data = noise(rng, 400_000);
        put(to, &mut target, at, data).await;
    }
    let before = volume.counters().bytes_sent;
    for round in 0..12 {
        let at = rng.random_range(0..source.len() as u64);
        let there = at % row + row * rng.random_range(0..3_000_000 / row + 1);
        let length = rng.random_range(1..2_000_000);
        let copied = to
            .copy_range(from, FileOffset(at), FileOffset(there), length)
            .await
            .unwrap();
        let end = source.len().min((at + length) as usize);
        let data = &source[at as usize..end];
        assert_eq!(copied, data.len() as u64);
        let (first, last) = (there as usize, there as usize + data.len());
        target.resize(target.len().max(last), 0);
        target[first..last].copy_from_slice(data);
        assert_holds(
            to,
            &target,
            &format!("round {round}: {at} -> {there}, {length}"),
        )
        .await;
    }
    volume.counters().bytes_sent - before
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_stays_on_its_servers_sends_no_data_to_the_client() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let mut rng = SmallRng::seed_from_u64(2);
    for (i, (cells, bsu)) in [(3, 65_536), (6, 4096), (4, 10_000)]
        .into_iter()
        .enumerate()
    {
        let from = create(&volume, &format!("/from-{i}"), cells, bsu, 1).await;
        let to = create(&volume, &format!("/to-{i}"), cells, bsu, 1).await;
        let row = u64::from(cells) * bsu;
        let sent = copies(&volume, &from, &to, &mut rng, row).await;
        assert!(sent < 20_000, "{sent} bytes were sent");
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_between_servers_moves_data_directly_or_through_the_client() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let mut rng = SmallRng::seed_from_u64(3);
    for (i, (from, to)) in [((3, 65_536), (2, 65_536)), ((4, 1000), (3, 8192))]
        .into_iter()
        .enumerate()
    {
        let from = create(&volume, &format!("/from-{i}"), from.0, from.1, 0).await;
        let to = create(&volume, &format!("/to-{i}"), to.0, to.1, 1).await;
        let before = ranges_sent(&test);
        let sent = copies(&volume, &from, &to, &mut rng, 1).await;
        // Some bytes go through the client: stretches between holes may be short.
        assert!(
            ranges_sent(&test) > before && sent > 100_000,
            "{sent} bytes"
        );
    }
    test.stop().await;
}

/// The requests to send a range to another server.
fn ranges_sent(test: &TestVolume) -> u64 {
    let sent = |node: &weft_server::Node| {
        let metrics = node.metrics().clone();
        metrics.net().snapshot().calls_of(Kind::SendRange)
    };
    test.servers.iter().flatten().map(sent).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn contiguous_data_is_copied_by_servers_whatever_the_layouts() {
    let mut test = TestVolume::start(3).await;
    let volume = test.client().await;
    let mut rng = SmallRng::seed_from_u64(4);
    let from = create(&volume, "/from", 3, 65_536, 0).await;
    let mut source = Vec::new();
    let data = noise(&mut rng, 9_000_001);
    put(&from, &mut source, 0, data).await;
    let all = (FileOffset(0), FileOffset(0));
    let layouts = [(3, 65_536, 1), (1, 65_536, 2), (7, 5000, 0), (2, 8, 1)];
    let mut targets = Vec::new();
    for (i, (cells, bsu, base)) in layouts.into_iter().enumerate() {
        let to = create(&volume, &format!("/to-{i}"), cells, bsu, base).await;
        let (bytes, calls) = (volume.counters().bytes_sent, ranges_sent(&test));
        let copied = to.copy_range(&from, all.0, all.1, u64::MAX).await.unwrap();
        let sent = volume.counters().bytes_sent - bytes;
        assert_eq!(copied, source.len() as u64);
        assert_eq!(ranges_sent(&test) - calls, 3, "one request to each server");
        assert!(sent < 5000, "{sent} bytes were sent");
        targets.push(to);
    }
    for (i, to) in targets.iter().enumerate() {
        assert_holds(to, &source, &format!("target {i}")).await;
    }
    // A part of the file, to another place in the same file.
    let (at, there) = (FileOffset(1_234_567), FileOffset(20_000_000));
    from.copy_range(&from, at, there, 1_000_000).await.unwrap();
    source.resize(21_000_000, 0);
    source.copy_within(1_234_567..2_234_567, 20_000_000);
    assert_holds(&from, &source, "within the file").await;
    // A file in a checkpoint, after the whole live file changed.
    volume.make_checkpoint("/", "kept").await.unwrap();
    let once = source.clone();
    put(&from, &mut source, 0, vec![1; 9_000_001]).await;
    let old = "/.weft/checkpoints/kept/from";
    let old = volume.attach(old, Access::read()).await.unwrap();
    let to = create(&volume, "/once", 3, 65_536, 1).await;
    to.copy_range(&old, all.0, all.1, 9_000_001).await.unwrap();
    assert_holds(&to, &once[..9_000_001], "of the checkpoint").await;

    // Servers get each other's addresses from the metadata service; without it, the bytes go
    // through the client.
    for id in 0..3 {
        test.stop_server(id).await;
    }
    for id in 0..3 {
        test.start_server(id).await;
    }
    let to = create(&volume, "/through", 3, 65_536, 1).await;
    assert_eq!(from.size().await.unwrap(), source.len() as u64);
    test.stop_meta().await;
    let bytes = volume.counters().bytes_sent;
    to.copy_range(&from, all.0, all.1, 3_000_000).await.unwrap();
    assert!(volume.counters().bytes_sent - bytes > 3_000_000);
    assert_holds(&to, &source[..3_000_000], "without the metadata service").await;
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_keeps_the_holes_and_the_length_of_its_source() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let from = create(&volume, "/from", 3, 65_536, 0).await;
    let open = from.canonical().unwrap();
    let data = vec![9; 1 << 20];
    open.write_at(ViewOffset(1 << 30), data.into())
        .await
        .unwrap();
    from.truncate(3 << 30).await.unwrap();
    for (name, cells) in [("/by-servers", 3), ("/from-server-to-server", 2)] {
        let to = create(&volume, name, cells, 65_536, 0).await;
        let all = (FileOffset(0), FileOffset(0));
        let copied = to.copy_range(&from, all.0, all.1, u64::MAX).await;
        assert_eq!(copied.unwrap(), 3 << 30);
        assert_eq!(to.size().await.unwrap(), 3 << 30, "{name}");
        assert!(stored(&to).await <= (1 << 20) + 4096, "{name}");
        let mut found = vec![0; (1 << 20) + 2];
        let open = to.canonical().unwrap();
        open.read_at(ViewOffset((1 << 30) - 1), &mut found)
            .await
            .unwrap();
        assert!(found[1..=1 << 20].iter().all(|b| *b == 9), "{name}");
        assert_eq!((found[0], found[(1 << 20) + 1]), (0, 0));
        to.close().await.unwrap();
        assert_eq!(volume.stat(name).await.unwrap().size, 3 << 30);
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_a_copy_within_a_file_may_touch_but_not_overlap() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/one", 2, 4096, 0).await;
    let mut model = Vec::new();
    let data = noise(&mut SmallRng::seed_from_u64(4), 100_000);
    put(&file, &mut model, 0, data).await;
    let copy = |from, to, length| file.copy_range(&file, FileOffset(from), FileOffset(to), length);
    let refused = copy(0, 999, 1000).await.unwrap_err();
    assert_eq!(refused.code(), Code::Invalid);
    assert_eq!(copy(0, 200_000, 100_000).await.unwrap(), 100_000);
    assert_eq!(copy(500, 0, 500).await.unwrap(), 500);
    assert_eq!(copy(1 << 40, 0, 500).await.unwrap(), 0);
    model.resize(300_000, 0);
    model.copy_within(0..100_000, 200_000);
    model.copy_within(500..1000, 0);
    assert_holds(&file, &model, "after two copies").await;
    test.stop().await;
}
