//! Small files with their bytes beside the metadata, over real sockets: the cost of their calls,
//! and the spill to their cells.

use crate::common;

use bytes::Bytes;
use common::TestVolume;
use weft_client::{Access, Changes, Error, File, NewLayout, Store, Time, Volume};
use weft_layout::ViewOffset;
use weft_proto::Code;

/// A BSU so small that even a small file has bytes in all cells.
fn narrow() -> NewLayout {
    NewLayout {
        cells: Some(4),
        bsu: Some(8),
        ..NewLayout::default()
    }
}

async fn create(volume: &Volume, path: &str) -> File {
    let access = Access::read_write().create(0o644).layout(&narrow());
    volume.attach(path, access.inline()).await.unwrap()
}

async fn content(volume: &Volume, path: &str) -> Vec<u8> {
    let file = volume.attach(path, Access::read()).await.unwrap();
    let mut bytes = vec![0; file.size().await.unwrap() as usize];
    let view = file.canonical().unwrap();
    view.read_at(ViewOffset(0), &mut bytes).await.unwrap();
    file.close().await.unwrap();
    bytes
}

fn text(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 % 251) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_costs_two_calls_to_write_and_one_to_read() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let calls = || volume.counters().calls_total();

    let before = calls();
    let file = create(&volume, "/f").await;
    assert!(file.created());
    assert_eq!(file.inline_data().as_deref(), Some(&b""[..]));
    let store = Store {
        modified: 5,
        close: true,
        changes: Some(Changes {
            mode: Some(0o600),
            modified: Some(Time::Nanos(77)),
            ..Changes::default()
        }),
        ..Store::default()
    };
    let stored = file.store_inline_with("hello", &store).await.unwrap();
    file.close().await.unwrap();
    drop(file);
    assert_eq!(
        calls() - before,
        2,
        "two calls for create, write, mode, time and close"
    );
    assert_eq!((stored.size, stored.mode, stored.modified), (5, 0o600, 77));

    let before = calls();
    let file = volume.attach("/f", Access::read().inline()).await.unwrap();
    assert_eq!(file.inline_data().as_deref(), Some(&b"hello"[..]));
    assert_eq!(file.attributes().size, 5);
    assert_eq!(calls() - before, 1, "one call for open and read");
    let before = calls();
    assert_eq!(volume.stat("/f").await.unwrap().size, 5);
    assert_eq!(calls() - before, 1, "one call for an exact size");
    assert!(matches!(file.canonical(), Err(Error::Inline { .. })));
    file.close().await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_inline_support_find_the_bytes_in_the_cells() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let bytes = text(10_000);
    let file = create(&volume, "/f").await;
    file.store_inline(bytes.clone(), 5, true).await.unwrap();
    let before = volume.stat("/f").await.unwrap();
    assert_eq!(content(&volume, "/f").await, bytes);
    let after = volume.stat("/f").await.unwrap();
    assert!(!after.inline);
    assert_eq!((after.size, after.modified), (before.size, before.modified));
    // The spill is permanent.
    let file = volume.attach("/f", Access::write().inline()).await.unwrap();
    assert!(file.inline_data().is_none());
    let refused = file.store_inline("x", 9, false).await.unwrap_err();
    assert_eq!(refused.code(), Code::Spilled);
    file.close().await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_two_writers_survive_the_spill_of_an_inline_file() {
    let test = TestVolume::start(2).await;
    let (one, other) = (test.client().await, test.client().await);
    let first = create(&one, "/f").await;
    first.store_inline(vec![1; 100], 5, false).await.unwrap();
    // The second writer attaches while the first has bytes 10..20 in memory.
    let second = other.attach("/f", Access::write().inline()).await.unwrap();
    assert!(
        second.inline_data().is_none(),
        "the file has another writer"
    );
    let view = second.canonical().unwrap();
    view.write_at(ViewOffset(50), Bytes::from(vec![3; 10]))
        .await
        .unwrap();
    let refused = first.store_inline(vec![2; 100], 6, true).await.unwrap_err();
    assert_eq!(refused.code(), Code::Spilled);
    let view = first.canonical().unwrap();
    view.write_at(ViewOffset(10), Bytes::from(vec![2; 10]))
        .await
        .unwrap();
    first.close().await.unwrap();
    second.close().await.unwrap();
    let mut expected = vec![1; 100];
    expected[10..20].fill(2);
    expected[50..60].fill(3);
    assert_eq!(content(&one, "/f").await, expected);
    assert!(one.stat("/f").await.unwrap().size_exact);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spill_waits_for_its_servers_and_loses_nothing() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    let bytes = text(1000);
    let file = create(&volume, "/f").await;
    file.store_inline(bytes.clone(), 5, false).await.unwrap();
    test.stop_server(1).await;
    let failed = file.spill().await.unwrap_err();
    assert_eq!(failed.code(), Code::Unavailable);
    // The spill has written half of the cells; the restart drops the service's memory.
    test.restart_meta().await;
    test.start_server(1).await;
    let mut spilled = file.spill().await;
    for _ in 0..200 {
        if spilled.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        spilled = file.spill().await;
    }
    spilled.unwrap();
    let view = file.canonical().unwrap();
    view.write_at(ViewOffset(1000), Bytes::from_static(b"end"))
        .await
        .unwrap();
    file.close().await.unwrap();
    let mut expected = bytes;
    expected.extend(b"end");
    assert_eq!(content(&volume, "/f").await, expected);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn truncation_within_the_bound_keeps_a_file_inline() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/f").await;
    file.store_inline("hello", 5, false).await.unwrap();
    file.truncate(3).await.unwrap();
    file.truncate(6).await.unwrap();
    assert_eq!(file.inline_data().as_deref(), Some(&b"hel\0\0\0"[..]));
    file.truncate(20_000).await.unwrap();
    assert!(file.inline_data().is_none());
    file.close().await.unwrap();
    let mut expected = b"hel".to_vec();
    expected.resize(20_000, 0);
    assert_eq!(content(&volume, "/f").await[..3], expected[..3]);
    assert_eq!(volume.stat("/f").await.unwrap().size, 20_000);
    volume.unlink("/f").await.unwrap();
    test.stop().await;
}
