//! List requests, against real servers.

use crate::common;

use bytes::Bytes;
use common::TestVolume;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, RngCore, SeedableRng};
use weft_client::{Access, Error, File, NewLayout, Transfer, Volume};
use weft_layout::{Pattern, PatternError, View, ViewOffset};
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

/// Disjoint runs of up to `longest` bytes in the first `size`, in any order.
fn runs(rng: &mut SmallRng, size: u64, longest: u64) -> Vec<(u64, usize)> {
    let mut runs = Vec::new();
    let mut at = rng.random_range(0..longest);
    while at < size {
        let length = rng.random_range(0..longest).min(size - at);
        runs.push((at, length as usize));
        at += length + rng.random_range(0..longest);
    }
    runs.shuffle(rng);
    runs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_writes_and_reads_the_same_bytes_as_single_calls() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let mut rng = SmallRng::seed_from_u64(7);
    for (i, (cells, bsu, longest)) in [(5, 7, 30), (4, 4096, 3000), (1, 1 << 16, 50_000)]
        .into_iter()
        .enumerate()
    {
        let file = create(&volume, &format!("/list-{i}"), cells, bsu).await;
        let view = file.view(View::canonical()).unwrap();
        let size = longest * 100;
        let mut expected = vec![0u8; size as usize];
        rng.fill_bytes(&mut expected);
        let written = view.write_at(ViewOffset(0), expected.clone().into()).await;
        assert_eq!(written.unwrap(), size);

        let mut list = Vec::new();
        for (at, length) in runs(&mut rng, size, longest) {
            let mut data = vec![0; length];
            rng.fill_bytes(&mut data);
            expected[at as usize..at as usize + length].copy_from_slice(&data);
            list.push((ViewOffset(at), Bytes::from(data)));
        }
        let bytes: usize = list.iter().map(|(_, data)| data.len()).sum();
        assert_eq!(view.write_list(&list).await.unwrap(), bytes as u64);
        let mut all = vec![0; size as usize];
        view.read_at(ViewOffset(0), &mut all).await.unwrap();
        assert!(all == expected, "{cells} cells of BSU {bsu}");

        let places = runs(&mut rng, size, longest);
        let mut memory: Vec<Vec<u8>> = places.iter().map(|(_, length)| vec![0; *length]).collect();
        let mut list: Vec<(ViewOffset, &mut [u8])> = places
            .iter()
            .zip(&mut memory)
            .map(|((at, _), memory)| (ViewOffset(*at), memory.as_mut_slice()))
            .collect();
        let wanted: usize = places.iter().map(|(_, length)| length).sum();
        assert_eq!(view.read_list(&mut list).await.unwrap(), wanted as u64);
        for ((at, length), memory) in places.iter().zip(&memory) {
            assert!(memory[..] == expected[*at as usize..*at as usize + length]);
        }
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_costs_one_request_per_server_that_holds_any_of_it() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let file = create(&volume, "/counted", 3, 10).await;
    let view = file.view(View::canonical()).unwrap();
    // Open the connections first.
    view.write_at(ViewOffset(0), vec![1; 300].into())
        .await
        .unwrap();
    let before = volume.counters().calls_of(Kind::Write);
    let list: Vec<(ViewOffset, Bytes)> = (0..5)
        .map(|i| (ViewOffset(i * 30), Bytes::from_static(b"twelve bytes")))
        .collect();
    assert_eq!(view.write_list(&list).await.unwrap(), 60);
    assert_eq!(volume.counters().calls_of(Kind::Write) - before, 2);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overlapping_runs_of_a_write_are_refused_unless_the_last_wins() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/overlap", 4, 5).await;
    let view = file.view(View::canonical()).unwrap();
    let list: Vec<(ViewOffset, Bytes)> = vec![
        (ViewOffset(10), Bytes::from_static(b"aaaaaaaaaa")),
        (ViewOffset(0), Bytes::from_static(b"bbbbbbbbbbbbb")),
        (ViewOffset(2), Bytes::from_static(b"cc")),
    ];
    let refused = view.write_list(&list).await.unwrap_err();
    assert!(matches!(
        refused,
        Error::Pattern(PatternError::Overlap { at: 2 })
    ));
    assert_eq!(view.size().await.unwrap(), 0, "nothing was written");
    view.write_list_last_wins(&list).await.unwrap();
    let mut all = vec![0; 20];
    view.read_at(ViewOffset(0), &mut all).await.unwrap();
    assert_eq!(all, b"bbccbbbbbbbbbaaaaaaa");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_longer_than_a_message_is_split() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/long", 2, 64).await;
    let view = file.view(View::canonical()).unwrap();
    let mut rng = SmallRng::seed_from_u64(3);
    let places = runs(&mut rng, 300_000, 9);
    let list: Vec<(ViewOffset, Bytes)> = places
        .iter()
        .map(|(at, length)| (ViewOffset(*at), Bytes::from(vec![*at as u8; *length])))
        .collect();
    assert!(list.len() > 32 << 10);
    let bytes: usize = list.iter().map(|(_, data)| data.len()).sum();
    let sent = |kind| volume.counters().calls_of(kind);
    assert_eq!(view.write_list(&list).await.unwrap(), bytes as u64);
    // Some runs are adjacent or evenly spaced, so they need fewer messages.
    let most = list.len().div_ceil(8 << 10) as u64 * 2;
    let writes = sent(Kind::Write);
    assert!(
        (4..=most).contains(&writes),
        "{writes} messages for {} runs",
        list.len()
    );
    let mut memory: Vec<Vec<u8>> = places.iter().map(|(_, length)| vec![0; *length]).collect();
    let mut back: Vec<(ViewOffset, &mut [u8])> = places
        .iter()
        .zip(&mut memory)
        .map(|((at, _), memory)| (ViewOffset(*at), memory.as_mut_slice()))
        .collect();
    assert_eq!(view.read_list(&mut back).await.unwrap(), bytes as u64);
    for ((_, data), memory) in list.iter().zip(&memory) {
        assert_eq!(data, memory);
    }

    // The same list as a transfer, packed in memory.
    let pattern = Pattern::list(
        places
            .iter()
            .map(|(at, length)| (at.cast_signed(), *length as u64)),
    );
    let packed: Vec<u8> = list
        .iter()
        .flat_map(|(_, data)| data.iter().map(|b| b ^ 1))
        .collect();
    let transfer = Transfer::of(pattern);
    assert_eq!(
        view.write_with(&transfer, packed.clone().into())
            .await
            .unwrap(),
        bytes as u64
    );
    let mut again = vec![0; bytes + 3];
    assert_eq!(
        view.read_with(&transfer, &mut again).await.unwrap(),
        bytes as u64
    );
    assert!(again[..bytes] == packed);
    let small = view.read_with(&transfer, &mut again[..bytes - 1]).await;
    assert!(matches!(small, Err(Error::Buffer { .. })), "{small:?}");

    // Any number of evenly spaced runs fits one message.
    let before = sent(Kind::Write);
    let data = Bytes::from_static(b"run");
    let equal: Vec<_> = (0..100_000_u64)
        .map(|i| (ViewOffset(7 * i), data.clone()))
        .collect();
    assert_eq!(view.write_list(&equal).await.unwrap(), 300_000);
    assert_eq!(sent(Kind::Write) - before, 2);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_longer_than_a_message_supports_any_place_in_memory() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/long", 2, 64).await;
    let view = file.view(View::canonical()).unwrap();
    let mut rng = SmallRng::seed_from_u64(4);
    let places = runs(&mut rng, 300_000, 9);
    assert!(places.len() > 32 << 10);
    let bytes: usize = places.iter().map(|(_, length)| length).sum();
    let runs = |(at, length): &(u64, usize)| (at.cast_signed(), *length as u64);
    let transfer = Transfer::of(Pattern::list(places.iter().map(runs)));
    let packed: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
    let moved = view.write_with(&transfer, packed.clone().into()).await;
    assert_eq!(moved.unwrap(), bytes as u64);
    let mut again = vec![0; bytes];

    // The runs lie backwards in memory, with a byte between them.
    let mut at = bytes + places.len();
    let backwards = Pattern::list(places.iter().map(|(_, length)| {
        at -= length + 1;
        (i64::try_from(at).unwrap(), *length as u64)
    }));
    let scattered = transfer.clone().in_memory(backwards);
    let mut memory = vec![255; bytes + places.len()];
    let moved = view.read_with(&scattered, &mut memory).await;
    assert_eq!(moved.unwrap(), bytes as u64);
    let (mut left, mut from) = (&memory[..], bytes);
    for (_, length) in places.iter().rev() {
        from -= length;
        assert_eq!(left[..*length], packed[from..from + length]);
        assert_eq!(left[*length], 255, "a byte between the runs was changed");
        left = &left[length + 1..];
    }
    let changed: Vec<u8> = memory.iter().map(|b| b ^ 3).collect();
    let moved = view.write_with(&scattered, changed.into()).await;
    assert_eq!(moved.unwrap(), bytes as u64);
    view.read_with(&transfer, &mut again).await.unwrap();
    assert!(again[..bytes].iter().zip(&packed).all(|(a, b)| *a == b ^ 3));
    let short = view.read_with(&scattered, &mut memory[bytes / 2..]).await;
    assert!(matches!(short, Err(Error::Buffer { .. })), "{short:?}");
    let same = transfer.clone().in_memory(Pattern::list(
        places.iter().map(|(_, length)| (0, *length as u64)),
    ));
    let twice = view.read_with(&same, &mut memory).await;
    assert!(matches!(twice, Err(Error::Pattern(_))), "{twice:?}");

    // The list has all runs twice: the later write of a byte wins, wherever messages are split.
    let ends = |i: usize| places[i % places.len()];
    let twice = Pattern::list((0..2 * places.len()).map(|i| {
        let (at, length) = ends(i);
        (at.cast_signed(), length as u64)
    }));
    let data: Vec<u8> = [vec![1; bytes], vec![2; bytes]].concat();
    let twice = Transfer::of(twice);
    let refused = view.write_with(&twice, data.clone().into()).await;
    assert!(matches!(refused, Err(Error::Pattern(_))), "{refused:?}");
    let moved = view.write_with(&twice.last_wins(), data.into()).await;
    assert_eq!(moved.unwrap(), 2 * bytes as u64);
    view.read_with(&transfer, &mut again).await.unwrap();
    assert!(again[..bytes].iter().all(|b| *b == 2));
    test.stop().await;
}
