//! Requests of every kind through every kind of view, against a model that touches one byte at a time.

mod common;
#[path = "../../weft-layout/tests/model/mod.rs"]
mod model;

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use common::TestVolume;
use model::{Byte, Model};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use weft_client::{Access, Error, File, NewLayout, OpenView, Transfer, Volume};
use weft_layout::{
    CellIndex, Map, Order, Partition, Pattern, PatternError, Subfile, View, ViewOffset,
};
use weft_proto::Kind;

async fn create(volume: &Volume, path: &str, cells: u32, bsu: u64) -> File {
    let layout = NewLayout {
        cells: Some(cells),
        bsu: Some(bsu),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

fn any_view(rng: &mut SmallRng, cells: u32) -> View {
    match rng.random_range(0..5) {
        0 => View::canonical(),
        1 => View::Cell(CellIndex(rng.random_range(0..cells))),
        2 => {
            let (group, gap) = (rng.random_range(1..40), rng.random_range(0..60));
            View::Partition(Partition {
                offset: rng.random_range(0..80),
                group,
                stride: group + gap,
            })
        }
        _ => {
            let (vn, hn) = (rng.random_range(1..3), rng.random_range(1..4));
            View::Subfile(Subfile {
                vbs: rng.random_range(1..4),
                vn,
                hbs: rng.random_range(1..4),
                hn,
                index: rng.random_range(0..vn * hn),
                order: [Order::Default, Order::Row, Order::Column][rng.random_range(0..3)],
            })
        }
    }
}

fn any_pattern(rng: &mut SmallRng, depth: u32) -> Pattern {
    match rng.random_range(0..if depth == 0 { 3 } else { 6 }) {
        0 => Pattern::bytes(rng.random_range(0..40)),
        1 => Pattern::list(
            (0..rng.random_range(0..10))
                .map(|_| (rng.random_range(-200..400), rng.random_range(0..20))),
        ),
        2 => Pattern::bytes(rng.random_range(1..12))
            .every(rng.random_range(-50..70))
            .times(rng.random_range(1..40)),
        3 | 4 => any_pattern(rng, depth - 1)
            .every(rng.random_range(-300..300))
            .times(rng.random_range(0..5)),
        _ => Pattern::Sequence(
            (0..rng.random_range(1..4))
                .map(|_| (rng.random_range(-200..200), any_pattern(rng, depth - 1)))
                .collect(),
        ),
    }
}

/// The runs of a pattern, byte by byte, in its order.
fn runs(pattern: &Pattern, at: i64) -> Vec<Vec<i64>> {
    match pattern {
        Pattern::Bytes(length) => vec![(0..(*length).cast_signed()).map(|i| at + i).collect()],
        Pattern::Repeat {
            body,
            stride,
            times,
        } => (0..(*times).cast_signed())
            .flat_map(|i| runs(body, at + i * stride))
            .collect(),
        Pattern::Sequence(members) => members
            .iter()
            .flat_map(|(by, member)| runs(member, at + by))
            .collect(),
        Pattern::List(list) => list
            .iter()
            .map(|(by, length)| (0..(*length).cast_signed()).map(|i| at + by + i).collect())
            .collect(),
    }
}

/// Where a pattern must start to touch nothing before byte 0, and what it then touches.
fn placed(pattern: &Pattern, spare: u64) -> (u64, Vec<Vec<usize>>) {
    let runs = runs(pattern, 0);
    let first = runs.iter().flatten().copied().min().unwrap_or(0);
    let start = spare.cast_signed() - first.min(0);
    let runs = runs
        .into_iter()
        .filter(|run| !run.is_empty())
        .map(|run| {
            run.iter()
                .map(|at| (at + start).cast_unsigned() as usize)
                .collect()
        })
        .collect();
    (start.cast_unsigned(), runs)
}

/// A pattern of `length` bytes in memory that touches none twice.
fn any_memory(rng: &mut SmallRng, length: u64) -> Pattern {
    if length == 0 {
        return Pattern::bytes(0);
    }
    let mut piece = rng.random_range(1..=length.min(9));
    while !length.is_multiple_of(piece) {
        piece -= 1;
    }
    let times = length / piece;
    match rng.random_range(0..4) {
        0 => Pattern::bytes(length),
        1 => Pattern::bytes(piece)
            .every(piece.cast_signed() + rng.random_range(0..9))
            .times(times),
        2 => Pattern::bytes(piece)
            .every(-piece.cast_signed() - rng.random_range(0..9))
            .times(times),
        _ => {
            let gap = rng.random_range(0..5);
            Pattern::list(
                (0..times.cast_signed())
                    .rev()
                    .map(|i| (i * (piece.cast_signed() + gap), piece)),
            )
        }
    }
}

/// What a file must hold, cell by cell.
#[derive(Default)]
struct Content {
    cells: BTreeMap<u64, Vec<u8>>,
}

impl Content {
    fn put(&mut self, byte: Byte, value: u8) {
        let cell = self.cells.entry(byte.cell).or_default();
        if cell.len() <= byte.offset as usize {
            cell.resize(byte.offset as usize + 1, 0);
        }
        cell[byte.offset as usize] = value;
    }

    fn get(&self, byte: Byte) -> Option<u8> {
        self.cells
            .get(&byte.cell)?
            .get(byte.offset as usize)
            .copied()
    }
}

/// Where each numbered byte lies; `None` is a ghost.
fn places(map: &Map, runs: &[Vec<usize>]) -> Vec<Option<Byte>> {
    let end = runs.iter().flatten().max().map_or(0, |last| last + 1);
    let model = Model::new(map.grid(), map.view(), end);
    runs.iter()
        .flat_map(|run| model.access(run[0], run[0] + run.len()))
        .map(|byte| (!model.is_ghost(byte)).then_some(byte))
        .collect()
}

struct Case {
    transfer: Transfer,
    places: Vec<Option<Byte>>,
    /// Where each numbered byte lies in memory.
    memory: Vec<usize>,
    room: usize,
    overlaps: bool,
}

fn any_case(rng: &mut SmallRng, view: &OpenView) -> Case {
    let pattern = any_pattern(rng, 2);
    let (at, touched) = placed(&pattern, rng.random_range(0..100));
    let places = places(view.map(), &touched);
    let in_memory = any_memory(rng, places.len() as u64);
    let (start, memory) = placed(&in_memory, rng.random_range(0..9));
    let memory: Vec<usize> = memory.into_iter().flatten().collect();
    let mut seen = HashSet::new();
    Case {
        transfer: Transfer::of(pattern)
            .at(ViewOffset(at))
            .in_memory_from(start, in_memory),
        places,
        room: memory.iter().max().map_or(start as usize, |last| last + 1) + rng.random_range(0..5),
        memory,
        overlaps: touched.iter().flatten().any(|at| !seen.insert(*at)),
    }
}

async fn write(rng: &mut SmallRng, view: &OpenView, content: &mut Content) {
    let mut case = any_case(rng, view);
    let mut data = vec![0; case.room];
    rng.fill_bytes(&mut data);
    let data = Bytes::from(data);
    if case.overlaps {
        let refused = view.write_with(&case.transfer, data.clone()).await;
        assert!(matches!(
            refused,
            Err(Error::Pattern(PatternError::Overlap { .. }))
        ));
        case.transfer = case.transfer.last_wins();
    }
    let moved = view.write_with(&case.transfer, data.clone()).await.unwrap();
    for (place, at) in case.places.iter().zip(&case.memory) {
        if let Some(byte) = place {
            content.put(*byte, data[*at]);
        }
    }
    let expected = case.places.iter().flatten().count();
    assert_eq!(
        moved,
        expected as u64,
        "{:?} {:?}",
        view.view(),
        case.transfer
    );
}

async fn read(rng: &mut SmallRng, view: &OpenView, content: &Content) {
    let case = any_case(rng, view);
    let mut buffer = vec![0xEE; case.room];
    let mut expected = buffer.clone();
    let mut count = 0;
    for (place, at) in case.places.iter().zip(&case.memory) {
        if let Some(value) = place.and_then(|byte| content.get(byte)) {
            expected[*at] = value;
            count += 1;
        }
    }
    let moved = view.read_with(&case.transfer, &mut buffer).await.unwrap();
    assert!(buffer == expected, "{:?} {:?}", view.view(), case.transfer);
    assert_eq!(moved, count, "{:?} {:?}", view.view(), case.transfer);
}

/// Each case is a file with some writes and reads through views of its own; `WEFT_CASES` asks for more.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_those_of_the_model_whatever_layout_view_request_and_memory() {
    let cases = std::env::var("WEFT_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    let seed = std::env::var("WEFT_SEED").ok().and_then(|n| n.parse().ok());
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let first = seed.unwrap_or(1u64);
    for seed in first..first + cases.unwrap_or(250u64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (cells, bsu) = (rng.random_range(1..9), rng.random_range(1..30));
        let path = format!("/case-{seed}");
        let file = create(&volume, &path, cells, bsu).await;
        let mut content = Content::default();
        for _ in 0..8 {
            let view = file.view(any_view(&mut rng, cells)).unwrap();
            write(&mut rng, &view, &mut content).await;
            let view = file.view(any_view(&mut rng, cells)).unwrap();
            read(&mut rng, &view, &content).await;
        }
        file.close().await.unwrap();
        volume.unlink(path.as_str()).await.unwrap();
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_costs_one_message_per_server_and_its_useful_bytes() {
    let test = TestVolume::start(4).await;
    let volume = test.client().await;
    let file = create(&volume, "/counted", 16, 64).await;
    let view = file.canonical().unwrap();
    let record = Pattern::bytes(64);
    let whole = 1u64 << 20;
    let all = vec![7u8; whole as usize];
    view.write_at(ViewOffset(0), all.into()).await.unwrap();
    // What each touches: pattern, servers, and how many times 64 bytes.
    let mut patterns = vec![
        (record.clone().every(64).times(8192), 4),
        (record.clone().every(256).times(4096), 1),
        (record.clone().every(-192).times(4000), 4),
        (record.clone().every(1024).times(32).every(128).times(8), 2),
        (
            record
                .clone()
                .then(64, record.clone())
                .every(1024)
                .times(1000),
            2,
        ),
    ];
    let far = |pattern: &Pattern| matches!(pattern, Pattern::Repeat { stride, .. } if *stride < 0);
    for (pattern, servers) in patterns.drain(..) {
        let useful = pattern.length().unwrap();
        let at = if far(&pattern) { whole - 64 } else { 0 };
        let transfer = Transfer::of(pattern).at(ViewOffset(at));
        let mut buffer = vec![0; useful as usize];
        let before = volume.counters();
        assert_eq!(
            view.read_with(&transfer, &mut buffer).await.unwrap(),
            useful
        );
        let after = volume.counters();
        assert_eq!(
            after.calls_of(Kind::Read) - before.calls_of(Kind::Read),
            servers
        );
        let frames = useful / (256 << 10) + 4 * servers;
        let extra = after.bytes_received - before.bytes_received - useful;
        assert!(
            extra < 128 * frames,
            "{extra} bytes more than useful, {transfer:?}"
        );
        assert!(after.bytes_sent - before.bytes_sent < 400 * frames);

        let before = volume.counters();
        let data = Bytes::from(buffer);
        assert_eq!(view.write_with(&transfer, data).await.unwrap(), useful);
        let after = volume.counters();
        assert_eq!(
            after.calls_of(Kind::Write) - before.calls_of(Kind::Write),
            servers
        );
        let extra = after.bytes_sent - before.bytes_sent - useful;
        assert!(
            extra < 400 * frames,
            "{extra} bytes more than useful, {transfer:?}"
        );
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_before_anything_moves() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let file = create(&volume, "/refused", 2, 8).await;
    let view = file.canonical().unwrap();
    let refused = |pattern: Pattern| view_error(&view, Transfer::of(pattern));
    assert!(matches!(
        refused(Pattern::bytes(8).every(-16).times(2)).await,
        Error::Pattern(PatternError::OutOfRange { first: -16, end: 8 })
    ));
    assert!(matches!(
        refused(Pattern::bytes(1).every(1 << 62).times(3)).await,
        Error::Pattern(PatternError::OutOfRange { .. })
    ));
    assert!(matches!(
        refused(Pattern::bytes(8).every(4).times(2)).await,
        Error::Pattern(PatternError::Overlap { at: 4 })
    ));
    let uneven = Transfer::of(Pattern::bytes(16)).in_memory(Pattern::bytes(8));
    assert!(matches!(
        view_error(&view, uneven).await,
        Error::Pattern(PatternError::Unequal {
            memory: 8,
            request: 16
        })
    ));
    let large = Transfer::of(Pattern::bytes(100));
    assert!(matches!(
        view_error(&view, large).await,
        Error::Buffer {
            given: 64,
            needed: 100
        }
    ));
    let twice = Transfer::of(Pattern::bytes(16)).in_memory(Pattern::bytes(8).every(4).times(2));
    let read = view.read_with(&twice, &mut [0; 64]).await.unwrap_err();
    assert!(matches!(
        read,
        Error::Pattern(PatternError::Overlap { at: 4 })
    ));
    assert_eq!(view.size().await.unwrap(), 0);
    test.stop().await;
}

async fn view_error(view: &OpenView, transfer: Transfer) -> Error {
    let data = Bytes::from_static(&[1; 64]);
    view.write_with(&transfer, data).await.unwrap_err()
}
