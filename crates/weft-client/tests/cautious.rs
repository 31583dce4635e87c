//! Cautious operations: each is atomic on all servers, and all of them happen in one order,
//! whatever becomes of clients and servers.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::TestVolume;
use common::budget::Budgets;
use common::linear::{Event, is_linearizable};
use futures_util::future::join_all;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_client::{Access, Changes, Error, NewLayout, OpenView, Policy, Transfer, Volume};
use weft_layout::{Pattern, View, ViewOffset};
use weft_proto::Code;

const BSU: u64 = 512;
const CELLS: u32 = 3;
/// Bytes of the file: several BSUs in each cell.
const LENGTH: usize = 4 * CELLS as usize * BSU as usize;

fn access() -> Access {
    let layout = NewLayout {
        cells: Some(CELLS),
        bsu: Some(BSU),
        ..NewLayout::default()
    };
    Access::read_write().create(0o644).layout(&layout)
}

async fn view(volume: &Volume, path: &str) -> OpenView {
    let file = volume.attach(path, access().cautious()).await.unwrap();
    file.view(View::canonical()).unwrap()
}

fn whole(byte: u8) -> Bytes {
    Bytes::from(vec![byte; LENGTH])
}

/// The byte that the whole file consists of; 0 if it is empty.
async fn read_same(view: &OpenView) -> Result<u8, Error> {
    let mut bytes = vec![0; LENGTH];
    let moved = view.read_at(ViewOffset(0), &mut bytes).await?;
    assert!(moved == 0 || moved == LENGTH as u64, "{moved} bytes");
    let first = bytes[0];
    let differs = bytes.iter().position(|byte| *byte != first);
    let values: std::collections::BTreeSet<u8> = bytes.iter().copied().collect();
    assert_eq!(differs, None, "a mixture of {values:?}, first {first}");
    Ok(first)
}

/// Clients that write and read the whole file, and what they saw.
async fn history(test: &TestVolume, path: &str, writers: u8, operations: u8) -> Vec<Event> {
    let next = Arc::new(AtomicU8::new(1));
    let mut clients = Vec::new();
    for number in 0..2 * writers {
        let view = view(&test.client().await, path).await;
        let next = next.clone();
        clients.push(tokio::spawn(async move {
            let mut events = Vec::new();
            for _ in 0..operations {
                let began = Instant::now();
                let is_write = number < writers;
                let value = if is_write {
                    let value = next.fetch_add(1, Ordering::SeqCst);
                    view.write_at(ViewOffset(0), whole(value)).await.unwrap();
                    value
                } else {
                    read_same(&view).await.unwrap()
                };
                events.push(Event {
                    value,
                    is_write,
                    began,
                    ended: Instant::now(),
                });
            }
            events
        }));
    }
    let all = join_all(clients).await;
    all.into_iter().flat_map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_all_servers_are_atomic_and_linearizable() {
    const WRITERS: u8 = 3;
    const WRITES: u8 = 60;
    let test = TestVolume::start(CELLS).await;
    let began = Instant::now();
    let first = view(&test.client().await, "/shared").await;
    first.write_at(ViewOffset(0), whole(0)).await.unwrap();
    let mut events = history(&test, "/shared", WRITERS, WRITES).await;
    events.push(Event {
        value: 0,
        is_write: true,
        began,
        ended: began,
    });
    assert!(is_linearizable(&events), "{events:?}");
    test.stop().await;
}

/// Posted operations of one client happen in the order in which they were posted.
#[tokio::test(flavor = "multi_thread")]
async fn posted_operations_keep_their_order() {
    let test = TestVolume::start(CELLS).await;
    let view = view(&test.client().await, "/posted").await;
    for round in 0..20_u8 {
        let mut writes = Vec::new();
        let mut reads = Vec::new();
        for n in 1..=8 {
            let value = 8 * round + n;
            // Some on one server, some on all.
            let length = if n % 3 == 0 { BSU as usize } else { LENGTH };
            let data = Bytes::from(vec![value; length]);
            writes.push(view.post_write_at(ViewOffset(0), data));
            let read = view.post_read_at(ViewOffset(0), vec![0; BSU as usize]);
            reads.push((value, read));
        }
        for (value, read) in reads {
            let found = read.wait().await.unwrap().buffer;
            assert!(
                found.iter().all(|byte| *byte == value),
                "{} and not {value}",
                found[0]
            );
        }
        for write in writes {
            write.wait().await.unwrap();
        }
    }
    test.stop().await;
}

/// Records of two writers alternate, so their operations neither conflict nor wait; a reader of all
/// waits for both.
#[tokio::test(flavor = "multi_thread")]
async fn strided_operations_are_atomic() {
    const RECORD: u64 = 96;
    let test = TestVolume::start(CELLS).await;
    let records = LENGTH as u64 / (2 * RECORD);
    let pattern = move || {
        Pattern::bytes(RECORD)
            .every(2 * RECORD.cast_signed())
            .times(records)
    };
    let mut writers = Vec::new();
    for writer in 0..2 {
        let view = view(&test.client().await, "/strided").await;
        writers.push(tokio::spawn(async move {
            let transfer = Transfer::of(pattern()).at(ViewOffset(writer * RECORD));
            for byte in 1..100_u8 {
                let data = Bytes::from(vec![byte; (records * RECORD) as usize]);
                view.write_with(&transfer, data).await.unwrap();
            }
        }));
    }
    let reader = view(&test.client().await, "/strided").await;
    let mut last = [0, 0];
    while last != [99, 99] {
        for writer in 0..2 {
            let transfer = Transfer::of(pattern()).at(ViewOffset(writer * RECORD));
            let mut bytes = vec![0; (records * RECORD) as usize];
            reader.read_with(&transfer, &mut bytes).await.unwrap();
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a mixture");
            let last = &mut last[writer as usize];
            assert!(bytes[0] >= *last, "{} after {last}", bytes[0]);
            *last = bytes[0];
        }
    }
    join_all(writers).await;
    test.stop().await;
}

/// Clears and truncations beside reads: all bytes are there, or none.
#[tokio::test(flavor = "multi_thread")]
async fn clears_and_truncations_are_atomic() {
    let test = TestVolume::start(CELLS).await;
    let volume = test.client().await;
    let writer = view(&volume, "/cleared").await;
    let changes = Changes {
        policy: Some(Some(Policy::POSIX)),
        ..Changes::default()
    };
    volume.set_attributes("/cleared", &changes).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for _ in 0..2 {
        let (view, done) = (view(&test.client().await, "/cleared").await, done.clone());
        readers.push(tokio::spawn(async move {
            let mut seen = [false; 2];
            while !done.load(Ordering::SeqCst) {
                seen[usize::from(read_same(&view).await.unwrap() != 0)] = true;
            }
            seen
        }));
    }
    for round in 1..60_u8 {
        writer.write_at(ViewOffset(0), whole(round)).await.unwrap();
        match round % 3 {
            0 => {
                let cleared = writer.clear(ViewOffset(0), LENGTH as u64);
                cleared.await.unwrap();
            }
            1 => writer.file().truncate(0).await.unwrap(),
            _ => assert_eq!(volume.truncate("/cleared", 0).await.unwrap().size, 0),
        }
    }
    done.store(true, Ordering::SeqCst);
    for seen in join_all(readers).await {
        assert_eq!(seen.unwrap(), [true, true], "both states were seen");
    }
    test.stop().await;
}

/// Writers are cancelled, or disconnected, at any moment: what they began is there wholly or not at
/// all, and blocks no other client.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_dies_at_any_moment_leaves_all_of_a_write_or_nothing() {
    const ROUNDS: u8 = 100;
    let test = TestVolume::start(CELLS).await;
    let reader = view(&test.client().await, "/dying").await;
    reader.write_at(ViewOffset(0), whole(0)).await.unwrap();
    let mut random = SmallRng::seed_from_u64(7);
    let mut outcomes = [0, 0];
    let mut last = 0;
    for round in 1..=ROUNDS {
        let volume = test.client().await;
        let dying = view(&volume, "/dying").await;
        let operation = dying.post_write_at(ViewOffset(0), whole(round));
        let delay = Duration::from_micros(random.random_range(0..1500));
        tokio::time::sleep(delay).await;
        drop(operation);
        if round.is_multiple_of(2) {
            // Its connections end, too.
            drop((dying, volume));
        }
        let began = Instant::now();
        let found = read_same(&reader).await.unwrap();
        assert!(found == round || found == last, "{found} in round {round}");
        let again = read_same(&reader).await.unwrap();
        assert!(again == round || found == last, "{again} after {found}");
        assert!(began.elapsed() < Duration::from_secs(3));
        outcomes[usize::from(again == round)] += 1;
        last = again;
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
    test.stop().await;
}

/// The commits of a write reach some of its servers, and then its client dies: what was decided on
/// the coordinator takes effect on the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_decided_takes_effect_on_all_servers() {
    const ROUNDS: u8 = 120;
    let test = TestVolume::start(CELLS).await;
    let reader = view(&test.client().await, "/partly").await;
    reader.write_at(ViewOffset(0), whole(0)).await.unwrap();
    let mut random = SmallRng::seed_from_u64(11);
    let mut outcomes = [0, 0];
    let mut last = 0;
    for round in 1..=ROUNDS {
        let budgets = Budgets::default();
        let mut options = test.options();
        options.env.network = Arc::new(budgets.clone());
        let volume = Volume::connect(options).await.unwrap();
        let dying = view(&volume, "/partly").await;
        // Connected to all.
        assert_eq!(read_same(&dying).await.unwrap(), last);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let part = LENGTH / CELLS as usize;
        for address in &test.addresses {
            // All of its part and, of the commit that follows, all or nothing.
            budgets.set(address, part + random.random_range(40..280));
        }
        let operation = dying.post_write_at(ViewOffset(0), whole(round));
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop((operation, dying, volume));
        let found = read_same(&reader).await.unwrap();
        assert!(found == round || found == last, "{found} in round {round}");
        assert_eq!(read_same(&reader).await.unwrap(), found);
        outcomes[usize::from(found == round)] += 1;
        last = found;
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
    test.stop().await;
}

/// A stopped client keeps its connections and moves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_client_stops_others_for_ten_seconds_at_most() {
    let test = TestVolume::start(CELLS).await;
    let sound = view(&test.client().await, "/silent").await;
    sound.write_at(ViewOffset(0), whole(1)).await.unwrap();
    let (volume, stop) = test.stopping_client().await;
    let stopping = Arc::new(view(&volume, "/silent").await);
    stopping.write_at(ViewOffset(0), whole(2)).await.unwrap();
    let writing = tokio::spawn({
        let stopping = stopping.clone();
        async move {
            for byte in 3..=255 {
                let _ = stopping.write_at(ViewOffset(0), whole(byte)).await;
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(30)).await;
    stop.reads.stop();
    stop.writes.stop();
    let began = Instant::now();
    let found = read_same(&sound).await.unwrap();
    assert!(found >= 2);
    sound.write_at(ViewOffset(0), whole(1)).await.unwrap();
    assert_eq!(read_same(&sound).await.unwrap(), 1);
    assert!(
        began.elapsed() < Duration::from_secs(12),
        "{:?}",
        began.elapsed()
    );
    writing.abort();
    test.stop().await;
}

/// Servers stop and start under writers and readers.
#[tokio::test(flavor = "multi_thread")]
async fn operations_stay_atomic_while_servers_restart() {
    let mut test = TestVolume::start(CELLS).await;
    let first = view(&test.client().await, "/restarts").await;
    first.write_at(ViewOffset(0), whole(0)).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicU64::new(0));
    let mut clients = Vec::new();
    for number in 0..4_u8 {
        let view = view(&test.client().await, "/restarts").await;
        let (done, written) = (done.clone(), written.clone());
        clients.push(tokio::spawn(async move {
            let mut byte = number;
            while !done.load(Ordering::SeqCst) {
                let result = if number < 2 {
                    byte = byte.wrapping_add(2);
                    view.write_at(ViewOffset(0), whole(byte)).await.map(drop)
                } else {
                    read_same(&view).await.map(drop)
                };
                if result.is_ok() {
                    written.fetch_add(1, Ordering::SeqCst);
                } else {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }));
    }
    for round in 0..9 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        test.stop_server(round % 3).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        test.start_server(round % 3).await;
    }
    done.store(true, Ordering::SeqCst);
    for client in join_all(clients).await {
        client.unwrap();
    }
    read_same(&first).await.unwrap();
    assert!(written.load(Ordering::SeqCst) > 50);
    test.stop().await;
}

/// A checkpoint has all of a write or nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_atomic_towards_operations() {
    let test = TestVolume::start(CELLS).await;
    let volume = test.client().await;
    let writer = view(&volume, "/kept").await;
    writer.write_at(ViewOffset(0), whole(0)).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let done = done.clone();
        async move {
            let mut byte = 0_u8;
            while !done.load(Ordering::SeqCst) {
                byte = byte.wrapping_add(1);
                writer.write_at(ViewOffset(0), whole(byte)).await.unwrap();
            }
        }
    });
    let mut kept = Vec::new();
    for n in 0..20 {
        let made = volume.make_checkpoint("/kept", &n.to_string()).await;
        kept.push(made.unwrap());
    }
    done.store(true, Ordering::SeqCst);
    writing.await.unwrap();
    for checkpoint in kept {
        let file = volume.attach("/kept", Access::read()).await.unwrap();
        let then = file.canonical().unwrap().of_checkpoint(&checkpoint);
        read_same(&then).await.unwrap();
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_is_too_large_is_refused_and_changes_nothing() {
    let test = TestVolume::start(1).await;
    let layout = NewLayout {
        cells: Some(1),
        ..NewLayout::default()
    };
    let access = Access::read_write().create(0o644).layout(&layout);
    let volume = test.client().await;
    let file = volume.attach("/large", access.cautious());
    let view = file.await.unwrap().canonical().unwrap();
    let large = Bytes::from(vec![1; (64 << 20) + 1]);
    let refused = view.write_at(ViewOffset(0), large).await.unwrap_err();
    assert_eq!(refused.code(), Code::TooLarge, "{refused}");
    assert_eq!(view.size().await.unwrap(), 0);
    let fits = Bytes::from(vec![1; 64 << 20]);
    view.write_at(ViewOffset(0), fits).await.unwrap();
    test.stop().await;
}

/// A view by a client of an application, opened reckless.
async fn reckless(test: &TestVolume, application: &str, access: Access) -> OpenView {
    let mut options = test.options();
    options.application = application.to_owned();
    let volume = Volume::connect(options).await.unwrap();
    let file = volume.attach("/common", access).await.unwrap();
    file.view(View::canonical()).unwrap()
}

/// Caution is forced where two applications use a file and one writes (Vesta §4.3), also upon those
/// that opened it before.
#[tokio::test(flavor = "multi_thread")]
async fn applications_that_share_a_file_become_cautious_if_one_writes() {
    let test = TestVolume::start(CELLS).await;
    let cautious = |view: &OpenView| view.file().is_cautious();
    let writer = reckless(&test, "one", access()).await;
    writer.write_at(ViewOffset(0), whole(1)).await.unwrap();
    let same = reckless(&test, "one", access()).await;
    let unnamed = reckless(&test, "", access()).await;
    same.write_at(ViewOffset(0), whole(2)).await.unwrap();
    assert!(!cautious(&same) && !cautious(&unnamed));
    let other = reckless(&test, "two", Access::read()).await;
    assert!(cautious(&other));
    // Those that are open learn it by their next operation, which succeeds.
    writer.write_at(ViewOffset(0), whole(3)).await.unwrap();
    let mut bytes = vec![0; LENGTH];
    unnamed.read_at(ViewOffset(0), &mut bytes).await.unwrap();
    assert_eq!(bytes, whole(3));
    same.clear(ViewOffset(0), BSU).await.unwrap();
    assert!(cautious(&writer) && cautious(&unnamed) && cautious(&same));
    assert_eq!(
        other.read_at(ViewOffset(0), &mut bytes).await.unwrap(),
        LENGTH as u64
    );

    // Without a writer nothing is forced, and what was forced ends with its cause.
    for view in [writer, same, unnamed, other] {
        view.file().clone().close().await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (one, two) = (
        reckless(&test, "one", Access::read()).await,
        reckless(&test, "two", Access::read()).await,
    );
    one.read_at(ViewOffset(0), &mut bytes).await.unwrap();
    assert!(!cautious(&one) && !cautious(&two));
    test.stop().await;
}

/// The servers go on refusing reckless operations after they were restarted.
#[tokio::test(flavor = "multi_thread")]
async fn forced_caution_survives_a_restart_of_servers() {
    let mut test = TestVolume::start(CELLS).await;
    let one = reckless(&test, "one", access()).await;
    let two = reckless(&test, "two", access()).await;
    assert!(two.file().is_cautious() && !one.file().is_cautious());
    for server in 0..CELLS as usize {
        test.stop_server(server).await;
        test.start_server(server).await;
    }
    tokio::time::sleep(Duration::from_millis(2500)).await;
    one.write_at(ViewOffset(0), whole(1)).await.unwrap();
    assert!(one.file().is_cautious());
    test.stop().await;
}
