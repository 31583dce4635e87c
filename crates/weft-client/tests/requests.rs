//! Requests of every kind through every kind of view, compared with a byte-by-byte model.

use crate::cases;
use crate::common;

use bytes::Bytes;
use cases::{Content, any_case, any_view, create};
use common::TestVolume;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use weft_client::{Error, OpenView, Transfer};
use weft_layout::{Pattern, PatternError, ViewOffset};
use weft_proto::Kind;

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

/// Each case is a file with some writes and reads through views of its own; `WEFT_CASES` sets the
/// number of cases.
#[tokio::test(flavor = "multi_thread")]
async fn requests_match_the_model_for_any_layout_view_pattern_and_memory() {
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
        // The cases use the data fork and a second fork.
        let forks = ["data", "second"];
        let mut contents = forks.map(|_| Content::default());
        let open = |rng: &mut SmallRng, fork: usize| {
            let view = any_view(rng, cells);
            file.view_of_fork(view, forks[fork]).unwrap()
        };
        for _ in 0..8 {
            let fork = usize::from(rng.random_ratio(1, 4));
            let view = open(&mut rng, fork);
            write(&mut rng, &view, &mut contents[fork]).await;
            let view = open(&mut rng, fork);
            read(&mut rng, &view, &contents[fork]).await;
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
    // Each pattern with the number of servers that it touches.
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
async fn invalid_requests_are_refused_before_any_byte_moves() {
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
