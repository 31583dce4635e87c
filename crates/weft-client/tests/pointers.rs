//! Shared offset pointers: every byte is dealt once, whatever is lost on the way.

use crate::common;

use std::time::Duration;

use common::TestVolume;
use futures_util::future::join_all;
use weft_client::{
    Access, Error, FsckOptions, Group, Missing, NewLayout, OpenView, SharedPointer, Volume,
};
use weft_layout::{View, ViewOffset};
use weft_proto::Code;

const RECORD: usize = 1000;

async fn view(volume: &Volume, path: &str) -> OpenView {
    let layout = NewLayout {
        cells: Some(3),
        bsu: Some(256),
        ..NewLayout::default()
    };
    let access = Access::read_write().create(0o644).layout(&layout);
    let file = volume.attach(path, access).await.unwrap();
    file.view(View::canonical()).unwrap()
}

async fn pointer(volume: &Volume, path: &str, name: &str) -> SharedPointer {
    view(volume, path).await.shared_pointer(name).unwrap()
}

/// Takes until `count` takes have succeeded; a failed one is tried again.
async fn take(pointer: &SharedPointer, count: usize) -> Vec<u64> {
    let mut taken = Vec::new();
    while taken.len() < count {
        match pointer.take(RECORD as u64).await {
            Ok(ViewOffset(offset)) => taken.push(offset),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn each_record_is_read_by_one_client() {
    const RECORDS: usize = 200;
    let test = TestVolume::start(3).await;
    let writer = view(&test.client().await, "/records").await;
    let all: Vec<u8> = (0..RECORDS)
        .flat_map(|record| vec![record as u8; RECORD])
        .collect();
    writer.write_at(ViewOffset(0), all.into()).await.unwrap();
    let mut readers = Vec::new();
    for _ in 0..4 {
        let shared = pointer(&test.client().await, "/records", "queue").await;
        readers.push(async move {
            let (mut found, mut record) = (Vec::new(), vec![0; RECORD]);
            while shared.read(&mut record).await.unwrap() == RECORD as u64 {
                assert!(record.iter().all(|byte| *byte == record[0]));
                found.push(record[0]);
                // The view's own calls leave the pointer alone.
                let first = shared.view().read_at(ViewOffset(0), &mut record).await;
                assert_eq!(first.unwrap(), RECORD as u64);
            }
            found
        });
    }
    let mut found = join_all(readers).await.concat();
    found.sort_unstable();
    assert_eq!(found, (0..RECORDS).map(|n| n as u8).collect::<Vec<_>>());
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_record_is_dealt_once_while_its_server_restarts() {
    const EACH: usize = 150;
    let mut test = TestVolume::start(2).await;
    let mut takers = Vec::new();
    for client in 0..3 {
        let volume = test.client().await;
        // Two takers in one client.
        for _ in 0..2 {
            let shared = pointer(&volume, "/file", "p").await;
            takers.push(tokio::spawn(async move {
                let mut taken = take(&shared, EACH / 3).await;
                tokio::time::sleep(Duration::from_millis(100 * client)).await;
                taken.extend(take(&shared, EACH - EACH / 3).await);
                taken
            }));
        }
    }
    for round in 0..4 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        test.stop_server(round % 2).await;
        test.start_server(round % 2).await;
    }
    let mut taken = Vec::new();
    for taker in takers {
        taken.extend(taker.await.unwrap());
    }
    taken.sort_unstable();
    let expected: Vec<u64> = (0..6 * EACH).map(|n| (n * RECORD) as u64).collect();
    assert_eq!(taken, expected);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_take_in_the_order_of_their_numbers() {
    const MEMBERS: u32 = 5;
    let test = TestVolume::start(2).await;
    let mut members = Vec::new();
    for member in 0..MEMBERS {
        let shared = pointer(&test.client().await, "/log", "p").await;
        members.push(async move {
            let group = Group::new("ordered", MEMBERS, member);
            for round in 0..3_u64 {
                // The last member comes first.
                let delay = u64::from(MEMBERS - member) * 10;
                tokio::time::sleep(Duration::from_millis(delay)).await;
                let size = u64::from(member + 1) * 10;
                let before: u64 = (1..=u64::from(member)).map(|n| n * 10).sum();
                let ViewOffset(offset) = shared.ordered(&group).take(size).await.unwrap();
                assert_eq!(offset, round * 150 + before, "member {member}");
            }
            let line = vec![b'a' + member as u8; 7];
            let written = shared.ordered(&group).write(line.into()).await;
            assert_eq!(written.unwrap(), 7);
        });
    }
    join_all(members).await;
    let reader = view(&test.client().await, "/log").await;
    let mut lines = vec![0; 35];
    reader.read_at(ViewOffset(450), &mut lines).await.unwrap();
    assert_eq!(lines, b"aaaaaaabbbbbbbcccccccdddddddeeeeeee");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_members_of_an_ordered_take_are_named_and_nothing_is_taken() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let (one, two) = (
        pointer(&volume, "/file", "p").await,
        pointer(&volume, "/file", "p").await,
    );
    let group = |member| Group::new("g", 3, member).wait(Duration::from_millis(300));
    let (groups, other) = ([group(0), group(2)], Group::new("other", 2, 0));
    let both = tokio::join!(
        one.ordered(&groups[0]).take(10),
        two.ordered(&groups[1]).take(10)
    );
    for failed in [both.0.unwrap_err(), both.1.unwrap_err()] {
        assert_eq!(failed.code(), Code::MembersMissing, "{failed}");
        assert!(failed.to_string().contains("member 1 of group"), "{failed}");
    }
    assert_eq!(one.position().await.unwrap(), ViewOffset(0));
    // A group that goes on takes without them.
    let going = [group(0), group(2)].map(|group| group.sequence(1).missing(Missing::GoOn));
    let (first, third) = tokio::join!(
        one.ordered(&going[0]).take(10),
        two.ordered(&going[1]).take(10)
    );
    assert_eq!(first.unwrap(), ViewOffset(0));
    assert_eq!(third.unwrap(), ViewOffset(10));
    // One group at a time.
    let waiting = group(0).sequence(2);
    let (waited, refused) = tokio::join!(one.ordered(&waiting).take(10), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        two.ordered(&other).take(10).await
    });
    assert_eq!(waited.unwrap_err().code(), Code::MembersMissing);
    assert_eq!(refused.unwrap_err().code(), Code::Busy);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_of_the_volume_takes_pointers_for_no_files() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    for name in ["p", "q", "r"] {
        let shared = pointer(&volume, "/file", name).await;
        assert_eq!(shared.take(10).await.unwrap(), ViewOffset(0));
        shared.view().file().close().await.unwrap();
    }
    // A stopped store has everything in its index.
    for server in 0..2 {
        test.stop_server(server).await;
        test.start_server(server).await;
    }
    let options = FsckOptions {
        data: true,
        ..FsckOptions::default()
    };
    let volume = test.client().await;
    let report = volume.fsck(options, &|_| ()).await.unwrap();
    assert!(report.found.is_empty(), "{:?}", report.found);
    assert!(report.unreachable.is_empty(), "{:?}", report.unreachable);
    let shared = pointer(&volume, "/file", "q").await;
    assert_eq!(shared.take(1).await.unwrap(), ViewOffset(10));
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pointer_can_be_moved_and_removed_and_ends_with_its_file() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let shared = pointer(&volume, "/file", "p").await;
    let other = pointer(&volume, "/file", "q").await;
    assert_eq!(shared.take(10).await.unwrap(), ViewOffset(0));
    shared.seek(ViewOffset(1 << 40)).await.unwrap();
    assert_eq!(shared.take(1).await.unwrap(), ViewOffset(1 << 40));
    assert_eq!(shared.position().await.unwrap(), ViewOffset((1 << 40) + 1));
    assert_eq!(other.position().await.unwrap(), ViewOffset(0));
    shared.remove().await.unwrap();
    shared.remove().await.unwrap();
    assert_eq!(shared.take(10).await.unwrap(), ViewOffset(0));
    let beyond = shared.take(u64::MAX).await.unwrap_err();
    assert_eq!(beyond.code(), Code::TooLarge, "{beyond}");
    // The pointer is no part of the file.
    let stat = volume.stat("/file").await.unwrap();
    assert_eq!(stat.size, 0);
    for name in ["", "a/b", "a\0b", &"n".repeat(65)] {
        let view = view(&volume, "/file").await;
        view.file().close().await.unwrap();
        let refused = view.shared_pointer(name);
        let refused = refused
            .err()
            .map(|error| matches!(error, Error::Configuration(_)));
        assert_eq!(refused, Some(true), "{name:?}");
    }
    volume.unlink("/file").await.unwrap();
    for pointer in [&shared, &other] {
        pointer.view().file().close().await.unwrap();
    }
    let mut deleted = false;
    for _ in 0..100 {
        if let Err(gone) = shared.take(10).await {
            assert_eq!(gone.code(), Code::Stale, "{gone}");
            deleted = true;
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(deleted, "the file was not deleted");
    let again = pointer(&volume, "/file", "p").await;
    assert_eq!(again.take(1).await.unwrap(), ViewOffset(0));
    test.stop().await;
}
