//! Two clients of one volume: appends, notifications and locks.

use crate::common;

use std::time::Duration;

use common::TestVolume;
use weft_client::{
    Access, Changed, ChangedEntry, File, LockKind, LockOwner, LockRange, Locked, NewLayout, Volume,
    Watch,
};
use weft_layout::ViewOffset;
use weft_proto::{Code, Kind};

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

/// Appends `count` records of `mark` with varying lengths; returns their offsets and lengths.
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
    // The first client appends its first records as the only writer.
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

    // After a truncation both clients append at the new end.
    first.truncate(10).await.unwrap();
    assert_eq!(second.append_offset(5, 0).await.unwrap(), 10);
    assert_eq!(first.append_offset(5, 10).await.unwrap(), 15);
    second.close().await.unwrap();
    assert_eq!(first.append_offset(1, 0).await.unwrap(), 20);

    let reader = other.attach("/log", Access::read()).await.unwrap();
    assert!(
        reader.append_offset(1, 0).await.is_err(),
        "a reader cannot append"
    );
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_writer_appends_without_asking_servers_for_the_end() {
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

/// A client reports its attachments over a new connection. A close over that connection ends only
/// its own attachment, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_over_a_new_connection_ends_only_its_own_attachment() {
    let mut test = volume_with_grace(Duration::from_millis(500)).await;
    let volume = test.client().await;
    let (first, second) = (
        attached(&volume, "/log").await,
        attached(&volume, "/log").await,
    );
    append_records(&first, 1, 3).await;
    append_records(&second, 2, 3).await;
    let size = first.size().await.unwrap();
    test.restart_meta().await;
    first.close().await.unwrap();
    assert!(!volume.stat("/log").await.unwrap().size_exact);
    assert_eq!(second.append_offset(5, size).await.unwrap(), size);
    // The same holds for an attachment without writes, whose end is reported in a batch.
    let third = volume.attach("/log", Access::write()).await.unwrap();
    third.close_deferred().await.unwrap();
    test.restart_meta().await;
    volume.report_detaches().await;
    // A background report may have failed to connect, which starts a backoff.
    while volume.server_map().await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(second.append_offset(5, size + 5).await.unwrap(), size + 5);
    second.close().await.unwrap();
    let stat = volume.stat("/log").await.unwrap();
    assert!(stat.size_exact && stat.size == size);
    test.stop().await;
}

/// All changes that arrive within `during`; `None` if everything may have changed.
async fn heard(watch: &mut Watch, during: Duration) -> Option<(Vec<u64>, Vec<ChangedEntry>)> {
    let (mut all_files, mut all_entries) = (Vec::new(), Vec::new());
    let end = tokio::time::Instant::now() + during;
    while let Ok(changed) = tokio::time::timeout_at(end, watch.next()).await {
        match changed {
            Changed::Everything => return None,
            Changed::Some { files, entries, .. } => {
                all_files.extend(files);
                all_entries.extend(entries);
            }
        }
    }
    Some((all_files, all_entries))
}

const SOON: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_is_notified_of_other_clients_changes_only() {
    let mut test = TestVolume::start(1).await;
    let (one, other) = (test.client().await, test.client().await);
    let (mut first, mut second) = (one.watch(), other.watch());
    assert_eq!(first.next().await, Changed::Everything, "the watch starts");
    assert_eq!(second.next().await, Changed::Everything, "the watch starts");

    let file = attached(&one, "/made").await;
    let view = file.canonical().unwrap();
    view.write_at(ViewOffset(0), vec![1; 10].into())
        .await
        .unwrap();
    file.close().await.unwrap();
    one.rename("/made", "/moved").await.unwrap();
    let (files, entries) = heard(&mut second, SOON).await.unwrap();
    assert!(files.contains(&file.id()));
    assert!(files.contains(&weft_proto::meta::ROOT));
    for name in ["made", "moved"] {
        let entry = ChangedEntry {
            parent: weft_proto::meta::ROOT,
            name: name.into(),
        };
        assert!(entries.contains(&entry), "{name}");
    }
    let own = heard(&mut first, SOON).await.unwrap();
    assert_eq!(
        own,
        (vec![], vec![]),
        "a client is notified of its own changes"
    );

    one.truncate("/moved", 3).await.unwrap();
    let (files, _) = heard(&mut second, SOON).await.unwrap();
    assert!(files.contains(&file.id()));

    // A waiting call returns when a change happens, not at its timeout.
    let waiting = tokio::spawn(async move {
        let changed = second.next().await;
        (second, changed)
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let started = std::time::Instant::now();
    one.unlink("/moved").await.unwrap();
    let (mut second, changed) = waiting.await.unwrap();
    assert!(matches!(changed, Changed::Some { .. }), "{changed:?}");
    assert!(started.elapsed() < Duration::from_secs(1));

    test.restart_meta().await;
    assert_eq!(
        second.next().await,
        Changed::Everything,
        "the service restarted"
    );
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_falls_behind_is_notified_that_everything_may_have_changed() {
    let test = TestVolume::start(1).await;
    let mut options = test.options();
    options.lazy = true;
    let one = Volume::connect(options).await.unwrap();
    let other = test.client().await;
    let mut watch = other.watch();
    assert_eq!(watch.next().await, Changed::Everything);
    one.make_directory("/d", 0o755).await.unwrap();
    assert!(matches!(watch.next().await, Changed::Some { .. }));
    // Each exchange is at least four changes: two names, the directory, two files.
    one.make_directory("/e", 0o755).await.unwrap();
    let exchanges = (0..8).map(|_| async {
        for _ in 0..2100 {
            one.exchange("/d", "/e").await.unwrap();
        }
    });
    futures_util::future::join_all(exchanges).await;
    assert_eq!(watch.next().await, Changed::Everything);
    one.make_directory("/f", 0o755).await.unwrap();
    assert!(
        matches!(watch.next().await, Changed::Some { .. }),
        "the watch continues with single changes"
    );
    test.stop().await;
}

const ONE: LockOwner = LockOwner {
    number: 11,
    pid: 100,
};
const OTHER: LockOwner = LockOwner {
    number: 22,
    pid: 200,
};
const FIRST_TEN: LockRange = LockRange::Bytes { start: 0, last: 9 };

/// A volume that gives up lost clients after `grace`.
async fn volume_with_grace(grace: Duration) -> TestVolume {
    let mut env = weft_net::Env::system();
    env.timing.grace = grace;
    TestVolume::start_with(1, env).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_held_by_another_client_is_waited_for() {
    let test = TestVolume::start(1).await;
    let (one, other) = (test.client().await, test.client().await);
    let (first, second) = (attached(&one, "/f").await, attached(&other, "/f").await);
    let exclusive = LockKind::Exclusive;
    let granted = first.lock(exclusive, FIRST_TEN, ONE, false).await.unwrap();
    assert_eq!(granted, Locked::Granted);

    let byte = LockRange::Bytes { start: 9, last: 20 };
    let refused = second.lock(LockKind::Shared, byte, OTHER, false).await;
    let Locked::Held(Some(by)) = refused.unwrap() else {
        panic!("a conflicting lock was granted")
    };
    assert_eq!((by.start, by.last, by.pid), (0, 9, ONE.pid));
    let tested = second.test_lock(exclusive, byte, OTHER).await.unwrap();
    assert_eq!(tested, Some(by));
    let whole = second.lock(exclusive, LockRange::Whole, OTHER, false).await;
    assert_eq!(
        whole.unwrap(),
        Locked::Granted,
        "locks of a whole file are independent of byte ranges"
    );

    let waiter = second.clone();
    let waits = tokio::spawn(async move { waiter.lock(exclusive, byte, OTHER, true).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waits.is_finished());
    let part = LockRange::Bytes { start: 5, last: 9 };
    first.unlock(part, ONE).await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap(), Locked::Granted);

    // Each client waits for a lock of the other.
    let waiter = first.clone();
    let waits = tokio::spawn(async move { waiter.lock(exclusive, byte, ONE, true).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let closes = second.lock(exclusive, FIRST_TEN, OTHER, true).await;
    assert_eq!(closes.unwrap(), Locked::Deadlock);
    second.release_locks(OTHER.number).await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap(), Locked::Granted);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_wait_for_a_lock_leaves_the_lock_free() {
    let test = TestVolume::start(1).await;
    let (one, other) = (test.client().await, test.client().await);
    let (first, second) = (attached(&one, "/f").await, attached(&other, "/f").await);
    let kind = LockKind::Exclusive;
    first.lock(kind, FIRST_TEN, ONE, false).await.unwrap();
    for round in 0..20 {
        let waits = second.lock(kind, FIRST_TEN, OTHER, true);
        let given_up = tokio::time::timeout(Duration::from_millis(round), waits).await;
        assert!(given_up.is_err());
    }
    first.unlock(FIRST_TEN, ONE).await.unwrap();
    // Locks granted to cancelled waits are released.
    let waits = first.lock(kind, FIRST_TEN, ONE, true);
    let granted = tokio::time::timeout(Duration::from_secs(5), waits).await;
    assert_eq!(granted.unwrap().unwrap(), Locked::Granted);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_a_dead_client_end_after_its_grace_period() {
    let grace = Duration::from_millis(800);
    let test = volume_with_grace(grace).await;
    let (kind, whole) = (LockKind::Exclusive, LockRange::Whole);
    // A client with a separate runtime, which ends without a message.
    let dead = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let options = test.options();
    let locked = dead.spawn(async move {
        let volume = Volume::connect(options).await.unwrap();
        let file = attached(&volume, "/f").await;
        let locked = file.lock(kind, whole, ONE, false).await.unwrap();
        std::mem::forget((volume, file));
        locked
    });
    assert_eq!(locked.await.unwrap(), Locked::Granted);
    let volume = test.client().await;
    let file = attached(&volume, "/f").await;
    let held = file.lock(kind, whole, OTHER, false).await.unwrap();
    assert!(matches!(held, Locked::Held(_)));

    let started = std::time::Instant::now();
    dead.shutdown_background();
    let waits = file.lock(kind, whole, OTHER, true);
    let granted = tokio::time::timeout(Duration::from_secs(10), waits).await;
    assert_eq!(granted.unwrap().unwrap(), Locked::Granted);
    let took = started.elapsed();
    assert!(
        took >= grace,
        "the lock ended before the grace period: {took:?}"
    );
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_file_ends_its_locks() {
    let test = TestVolume::start(1).await;
    let (one, other) = (test.client().await, test.client().await);
    let (first, second) = (attached(&one, "/f").await, attached(&other, "/f").await);
    let kind = LockKind::Exclusive;
    first.lock(kind, FIRST_TEN, ONE, false).await.unwrap();
    first.close().await.unwrap();
    let granted = second.lock(kind, FIRST_TEN, OTHER, false).await.unwrap();
    assert_eq!(granted, Locked::Granted);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_survive_a_restart_of_the_service_without_a_grant_to_others() {
    let mut test = volume_with_grace(Duration::from_millis(1500)).await;
    let (one, other) = (test.client().await, test.client().await);
    let (first, second) = (attached(&one, "/f").await, attached(&other, "/f").await);
    let kind = LockKind::Exclusive;
    first.lock(kind, FIRST_TEN, ONE, false).await.unwrap();
    test.restart_meta().await;

    // The holder has not reported its lock yet: the service grants no conflicting lock.
    let early = second.lock(kind, FIRST_TEN, OTHER, false).await;
    assert_eq!(early.unwrap_err().code(), Code::Busy);
    let waiter = second.clone();
    let waits = tokio::spawn(async move { waiter.lock(kind, FIRST_TEN, OTHER, true).await });
    // The holder reports its lock with its next call.
    one.stat("/f").await.unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(!waits.is_finished(), "the reported lock still holds");
    let held = second.lock(kind, FIRST_TEN, OTHER, false).await.unwrap();
    assert!(matches!(held, Locked::Held(_)));
    first.unlock(FIRST_TEN, ONE).await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap(), Locked::Granted);
    test.stop().await;
}

/// An extension is one request to one server and never shortens a file, even if the caller knows
/// an older end.
#[tokio::test(flavor = "multi_thread")]
async fn extending_a_file_keeps_the_writes_of_another_client() {
    let test = TestVolume::start(2).await;
    let (one, other) = (test.client().await, test.client().await);
    let (first, second) = (attached(&one, "/f").await, attached(&other, "/f").await);
    let extended = || {
        let all = test.servers.iter().flatten();
        let count = |node: &weft_server::Node| {
            let metrics = node.metrics().clone();
            metrics.net().snapshot().calls_of(Kind::ExtendCells)
        };
        all.map(count).sum::<u64>()
    };
    let theirs = second.canonical().unwrap();
    let at = ViewOffset(1000);
    theirs.write_at(at, "theirs".into()).await.unwrap();
    for size in [0, 1, 100, 1003, 1006] {
        first.extend(size).await.unwrap();
        assert_eq!(first.size().await.unwrap(), 1006, "{size}");
    }
    assert_eq!(extended(), 4, "an extension to 0 bytes sends no request");
    for size in [1007, 1024, 1025, 5000] {
        first.extend(size).await.unwrap();
        assert_eq!(first.size().await.unwrap(), size);
    }
    assert_eq!(extended(), 8);
    let mut all = vec![0; 5000];
    theirs.read_at(ViewOffset(0), &mut all).await.unwrap();
    let mut expected = vec![0; 5000];
    expected[1000..1006].copy_from_slice(b"theirs");
    assert!(all == expected);
    // Concurrent writes and extensions beyond the known end lose no byte.
    let (ours, mut size) = (first.canonical().unwrap(), 5000);
    for round in 0..100_u64 {
        let written = theirs.write_at(ViewOffset(size + 40), "behind".into());
        let (extend, written) = tokio::join!(first.extend(size + 30), written);
        extend.unwrap();
        written.unwrap();
        size += 46;
        assert_eq!(first.size().await.unwrap(), size, "{round}");
        let mut found = [0; 6];
        let at = ViewOffset(size - 6);
        assert_eq!(ours.read_at(at, &mut found).await.unwrap(), 6);
        assert_eq!(&found, b"behind");
    }
    first.close().await.unwrap();
    second.close().await.unwrap();
    assert_eq!(one.stat("/f").await.unwrap().size, size);
    let reader = other.attach("/f", Access::read()).await.unwrap();
    let refused = reader.extend(size + 1).await.unwrap_err();
    assert!(refused.to_string().contains("reading only"), "{refused}");
    let written = reader.canonical().unwrap();
    assert!(written.write_at(ViewOffset(0), "no".into()).await.is_err());
    assert!(written.clear(ViewOffset(0), 10).await.is_err());
    assert_eq!(one.stat("/f").await.unwrap().size, size);
    test.stop().await;
}

/// A failed extension does not change the size later, and the file's size becomes exact.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_extension_keeps_the_size_of_a_file() {
    let mut test = TestVolume::start(1).await;
    let volume = test.client().await;
    let file = attached(&volume, "/f").await;
    let view = file.canonical().unwrap();
    view.write_at(ViewOffset(0), "as before".into())
        .await
        .unwrap();
    test.stop_server(0).await;
    assert!(file.extend(1 << 30).await.is_err());
    test.start_server(0).await;
    while file.size().await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(file.size().await.unwrap(), 9);
    file.close().await.unwrap();
    let stat = volume.stat("/f").await.unwrap();
    assert!(stat.size == 9 && stat.size_exact, "{stat:?}");
    test.stop().await;
}
