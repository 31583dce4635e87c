//! Two clients and one volume: appends, changes, locks.

mod common;

use common::TestVolume;
use weft_client::{Access, File, NewLayout, Volume};
use weft_layout::ViewOffset;
use weft_proto::Kind;

fn layout() -> NewLayout {
    NewLayout {
        cells: Some(2),
        bsu: Some(16),
        ..NewLayout::default()
    }
}

async fn attached(volume: &Volume, path: &str) -> File {
    let access = Access::read_write().create(0o644).layout(&layout());
    volume.attach(path, access).await.unwrap()
}

/// Appends `count` records of `mark` of changing lengths.
async fn append_records(file: &File, mark: u8, count: usize) -> Vec<(u64, usize)> {
    let view = file.canonical().unwrap();
    let mut placed = Vec::new();
    let mut end = 0;
    for i in 0..count {
        let length = 1 + (i * 7) % 50;
        let offset = file.append_offset(length as u64, end).await.unwrap();
        let bytes = vec![mark; length];
        view.write_at(ViewOffset(offset), bytes.into())
            .await
            .unwrap();
        end = offset + length as u64;
        placed.push((offset, length));
    }
    placed
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_of_two_clients_never_overlap_and_leave_no_gap() {
    let test = TestVolume::start(2).await;
    let (one, other) = (test.client().await, test.client().await);
    let first = attached(&one, "/log").await;
    // The first records are dealt out while it writes alone.
    let mut placed = append_records(&first, 9, 20).await;
    let second = attached(&other, "/log").await;
    let (a, b) = tokio::join!(
        append_records(&first, 1, 200),
        append_records(&second, 2, 200)
    );
    placed.extend(a);
    placed.extend(b);
    placed.sort_unstable();
    let mut end = 0;
    for (offset, length) in &placed {
        assert_eq!(*offset, end, "a gap or an overlap");
        end += *length as u64;
    }
    assert_eq!(first.size().await.unwrap(), end);

    // What is cut off is appended again, by either.
    first.truncate(10).await.unwrap();
    assert_eq!(second.append_offset(5, 0).await.unwrap(), 10);
    assert_eq!(first.append_offset(5, 10).await.unwrap(), 15);
    second.close().await.unwrap();
    assert_eq!(first.append_offset(1, 0).await.unwrap(), 20);

    let reader = other.attach("/log", Access::read()).await.unwrap();
    assert!(reader.append_offset(1, 0).await.is_err(), "it only reads");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_writer_alone_appends_without_a_request_to_any_server() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let file = attached(&volume, "/log").await;
    let asked = |test: &TestVolume| {
        let metrics = test.servers[0].as_ref().unwrap().metrics().clone();
        metrics.net().snapshot().calls_of(Kind::CellStatus)
    };
    let before = asked(&test);
    append_records(&file, 1, 50).await;
    assert_eq!(asked(&test), before);
    file.close().await.unwrap();
    let size = volume.stat("/log").await.unwrap().size;
    let again = attached(&volume, "/log").await;
    assert_eq!(again.append_offset(1, 0).await.unwrap(), size);
    test.stop().await;
}
