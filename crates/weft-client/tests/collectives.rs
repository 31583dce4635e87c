//! Collectives: reads and writes of the members of a group, compared with the model; and their
//! cost.

use crate::cases;
use crate::common;
use crate::model;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use cases::{Case, Content, any_case, any_pattern, any_view, case_of, create};
use common::TestVolume;
use futures_util::future::{join_all, try_join_all};
use model::Byte;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use weft_client::{
    Collected, Error, File, Group, JoinedRead, JoinedWrite, Missing, OpenView, Overlaps, Transfer,
    Volume, read_joined, write_joined,
};
use weft_layout::{Order, Pattern, Subfile, View, ViewOffset};
use weft_proto::{Code, Kind};
use weft_store::CounterSnapshot;

fn group(id: &str, members: u32, member: u32) -> Group {
    Group::new(id, members, member).wait(Duration::from_secs(20))
}

/// Random data for one member's write.
fn any_data(rng: &mut SmallRng, case: &mut Case) -> Bytes {
    let mut data = vec![0; case.room];
    rng.fill_bytes(&mut data);
    if case.overlaps {
        case.transfer = case.transfer.clone().last_wins();
    }
    data.into()
}

fn put_all(content: &mut Content, case: &Case, data: &[u8]) {
    for (place, at) in case.places.iter().zip(&case.memory) {
        if let Some(byte) = place {
            content.put(*byte, data[*at]);
        }
    }
}

/// Whether two of the members touch the same byte.
fn meet(cases: &[Case]) -> bool {
    let mut touched: BTreeMap<Byte, usize> = BTreeMap::new();
    let mut bytes = cases.iter().enumerate();
    bytes.any(|(i, case)| {
        let mut places = case.places.iter().flatten();
        places.any(|byte| *touched.entry(*byte).or_insert(i) != i)
    })
}

fn views(rng: &mut SmallRng, files: &[File], members: usize, cells: u32) -> Vec<OpenView> {
    let one = |i: usize| files[i % files.len()].view(any_view(rng, cells)).unwrap();
    (0..members).map(one).collect()
}

/// Makes the request of each member of a collective.
type Cases = fn(&mut SmallRng, &OpenView) -> Case;

async fn write(
    rng: &mut SmallRng,
    views: &[OpenView],
    id: &str,
    content: &mut Content,
    any: Cases,
) {
    let mut cases: Vec<Case> = views.iter().map(|view| any(rng, view)).collect();
    let data: Vec<Bytes> = cases.iter_mut().map(|case| any_data(rng, case)).collect();
    let meet = meet(&cases) || cases.iter().any(|case| case.overlaps);
    let overlaps = if meet || rng.random_bool(0.3) {
        Overlaps::MemberOrder
    } else {
        Overlaps::Refuse
    };
    let own: Vec<u64> = cases
        .iter()
        .map(|c| c.places.iter().flatten().count() as u64)
        .collect();
    if rng.random_bool(0.3) {
        let members = views.iter().zip(&cases).zip(&data);
        let members = members.map(|((view, case), data)| JoinedWrite {
            view,
            transfer: &case.transfer,
            data: data.clone(),
        });
        let moved = write_joined(members.collect(), overlaps).await.unwrap();
        assert_eq!(moved, own.iter().sum::<u64>());
    } else {
        let members = views.len() as u32;
        let writes = views.iter().zip(&cases).zip(&data).enumerate();
        let writes = writes.map(|(i, ((view, case), data))| async move {
            let group = group(id, members, i as u32).overlaps(overlaps);
            view.collective(&group)
                .write(&case.transfer, data.clone())
                .await
        });
        let moved = try_join_all(writes).await.unwrap();
        for (moved, bytes) in moved.into_iter().zip(own) {
            let missing = Vec::new();
            assert_eq!(moved, Collected { bytes, missing });
        }
    }
    for (case, data) in cases.iter().zip(&data) {
        put_all(content, case, data);
    }
}

async fn read(rng: &mut SmallRng, views: &[OpenView], id: &str, content: &Content, any: Cases) {
    let cases: Vec<Case> = views.iter().map(|view| any(rng, view)).collect();
    let mut buffers: Vec<Vec<u8>> = cases.iter().map(|case| vec![0xEE; case.room]).collect();
    let mut expected = buffers.clone();
    let mut own = vec![0; cases.len()];
    for (i, case) in cases.iter().enumerate() {
        for (place, at) in case.places.iter().zip(&case.memory) {
            if let Some(value) = place.and_then(|byte| content.get(byte)) {
                expected[i][*at] = value;
                own[i] += 1;
            }
        }
    }
    let members = views.len() as u32;
    let all = views.iter().zip(&cases).zip(&mut buffers);
    if rng.random_bool(0.3) {
        let members = all.map(|((view, case), buffer)| JoinedRead {
            view,
            transfer: &case.transfer,
            buffer,
        });
        let moved = read_joined(members.collect()).await.unwrap();
        assert_eq!(moved, own.iter().sum::<u64>());
    } else {
        let reads = all
            .enumerate()
            .map(|(i, ((view, case), buffer))| async move {
                let group = group(id, members, i as u32);
                view.collective(&group).read(&case.transfer, buffer).await
            });
        let moved = try_join_all(reads).await.unwrap();
        let moved: Vec<u64> = moved.into_iter().map(|m| m.bytes).collect();
        assert_eq!(moved, own);
    }
    for (i, case) in cases.iter().enumerate() {
        let wrong = (0..case.room).find(|at| buffers[i][*at] != expected[i][*at]);
        let place = wrong.map(|at| (at, buffers[i][at], expected[i][at]));
        let (view, transfer) = (views[i].view(), &case.transfer);
        assert_eq!(
            place, None,
            "{id}: member {i} of {members}: {view:?} {transfer:?}"
        );
    }
}

/// A few bytes spread over several MiB, so that a job has several rounds with bytes of other
/// members in between. Runs that go backwards or by columns are adjacent in the view and not in
/// memory.
fn any_wide_pattern(rng: &mut SmallRng) -> Pattern {
    let length = rng.random_range(1..9u64);
    let step = length.cast_signed();
    let here = match rng.random_range(0..4) {
        0 => any_pattern(rng, 1),
        1 => Pattern::bytes(length)
            .every(-step)
            .times(rng.random_range(1..900)),
        _ => {
            let (rows, columns) = (rng.random_range(1..40), rng.random_range(1..30));
            let column = Pattern::bytes(length).every(step * columns).times(rows);
            column.every(step).times(columns.cast_unsigned())
        }
    };
    let apart = rng.random_range(1 << 20..5 << 20) * [1, -1][rng.random_range(0..2)];
    here.every(apart).times(rng.random_range(2..6))
}

/// Each case is a file and a group whose members write and read through views of their own;
/// `WEFT_CASES` sets the number of cases.
#[tokio::test(flavor = "multi_thread")]
async fn collectives_match_the_model() {
    against_the_model(120, 1..30, any_case).await;
}

/// The same comparison with bytes of every member in many rounds.
#[tokio::test(flavor = "multi_thread")]
async fn collectives_of_many_rounds_match_the_model() {
    against_the_model(6, 1..200_000, |rng, view| {
        let pattern = any_wide_pattern(rng);
        case_of(rng, view, pattern)
    })
    .await;
}

async fn against_the_model(cases: u64, bsu: Range<u64>, any: Cases) {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let test = TestVolume::start(3).await;
    let volumes = [test.client().await, test.client().await];
    let first = number("WEFT_SEED").unwrap_or(1u64);
    for seed in first..first + number("WEFT_CASES").unwrap_or(cases) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (cells, bsu) = (rng.random_range(1..9), rng.random_range(bsu.clone()));
        let members = rng.random_range(1..6);
        let path = format!("/case-{seed}");
        let files = [
            create(&volumes[0], &path, cells, bsu).await,
            volumes[1]
                .attach(path.as_str(), weft_client::Access::read_write())
                .await
                .unwrap(),
        ];
        let mut content = Content::default();
        for step in 0..4 {
            let id = format!("case {seed} step {step}");
            let writers = views(&mut rng, &files, members, cells);
            write(&mut rng, &writers, &id, &mut content, any).await;
            let readers = views(&mut rng, &files, members, cells);
            read(&mut rng, &readers, &id, &content, any).await;
        }
        for file in &files {
            file.close().await.unwrap();
        }
        volumes[0].unlink(path.as_str()).await.unwrap();
    }
    test.stop().await;
}

/// Records of 64 bytes, dealt to the members in turn.
fn records(members: u64, member: u64, bytes: u64) -> Transfer {
    let times = bytes / members / 64;
    let all = Pattern::bytes(64)
        .every(64 * members.cast_signed())
        .times(times);
    Transfer::of(all).at(ViewOffset(64 * member))
}

async fn together<T, F: Future<Output = Result<T, Error>>>(
    members: u32,
    one: impl Fn(u32) -> F,
) -> Vec<Result<T, Error>> {
    join_all((0..members).map(one)).await
}

fn counters(test: &TestVolume) -> CounterSnapshot {
    let mut sum = CounterSnapshot::default();
    for node in test.servers.iter().flatten() {
        let counters = node.store().unwrap().counters();
        sum.read_bytes += counters.read_bytes;
        sum.disk_read_bytes += counters.disk_read_bytes;
        sum.writes += counters.writes;
    }
    sum
}

async fn canonical(volume: &Volume, path: &str) -> OpenView {
    let file = volume
        .attach(path, weft_client::Access::read_write())
        .await
        .unwrap();
    file.canonical().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collective_costs_one_message_for_each_member_and_server() {
    let test = TestVolume::start(3).await;
    let first = test.client().await;
    create(&first, "/counted", 6, 64 << 10).await;
    let members = 4;
    let mut volumes = Vec::new();
    let mut views = Vec::new();
    for _ in 0..members {
        let volume = test.client().await;
        views.push(canonical(&volume, "/counted").await);
        volumes.push(volume);
    }
    let bytes = 3u64 << 20;
    let calls = |kind| {
        volumes
            .iter()
            .map(|v| v.counters().calls_of(kind))
            .collect::<Vec<_>>()
    };
    let done = together(members, |i| {
        let (view, transfer) = (&views[i as usize], records(4, i.into(), bytes));
        async move {
            let group = group("counted", members, i);
            let data = vec![i as u8; (bytes / 4) as usize];
            view.collective(&group).write(&transfer, data.into()).await
        }
    })
    .await;
    assert!(
        done.iter()
            .all(|d| d.as_ref().is_ok_and(|d| d.bytes == bytes / 4)),
        "{done:?}"
    );
    assert_eq!(calls(Kind::CollectiveWrite), [3; 4]);
    assert_eq!(calls(Kind::Write), [0; 4]);
    // All members read the same bytes; the servers read them once.
    let before = counters(&test);
    let done = together(members, |i| {
        let view = &views[i as usize];
        async move {
            let group = group("counted", members, i);
            let mut buffer = vec![0; bytes as usize];
            view.collective(&group)
                .read_at(ViewOffset(0), &mut buffer)
                .await?;
            let right = |(at, byte): (usize, &u8)| *byte == (at / 64 % 4) as u8;
            assert!(buffer.iter().enumerate().all(right));
            Ok(())
        }
    })
    .await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    assert_eq!(calls(Kind::CollectiveRead), [3; 4]);
    assert_eq!(counters(&test).read_bytes - before.read_bytes, bytes);
    // A member without bytes on a server still sends it a request.
    let done = together(members, |i| {
        let view = &views[i as usize];
        async move {
            let group = group("one", members, i);
            view.collective(&group)
                .read_at(ViewOffset(0), &mut [0; 64])
                .await
        }
    })
    .await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    assert_eq!(calls(Kind::CollectiveRead), [6; 4]);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joined_requests_cost_one_message_for_each_server() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let file = create(&volume, "/joined", 6, 64 << 10).await;
    let view = file.canonical().unwrap();
    let bytes = 3u64 << 20;
    let transfers: Vec<Transfer> = (0..4).map(|i| records(4, i, bytes)).collect();
    let members = transfers
        .iter()
        .enumerate()
        .map(|(i, transfer)| JoinedWrite {
            view: &view,
            transfer,
            data: vec![i as u8; (bytes / 4) as usize].into(),
        });
    assert_eq!(
        write_joined(members.collect(), Overlaps::Refuse)
            .await
            .unwrap(),
        bytes
    );
    assert_eq!(volume.counters().calls_of(Kind::JoinedWrite), 3);
    let before = counters(&test);
    let mut buffers = vec![vec![0; bytes as usize]; 4];
    let whole = Transfer::of(Pattern::bytes(bytes));
    let members = buffers.iter_mut().map(|buffer| JoinedRead {
        view: &view,
        transfer: &whole,
        buffer,
    });
    assert_eq!(read_joined(members.collect()).await.unwrap(), 4 * bytes);
    assert_eq!(volume.counters().calls_of(Kind::JoinedRead), 3);
    assert_eq!(counters(&test).read_bytes - before.read_bytes, bytes);
    let right = |(at, byte): (usize, &u8)| *byte == (at / 64 % 4) as u8;
    assert!(buffers.iter().all(|b| b.iter().enumerate().all(right)));
    let twice = [&whole, &whole].map(|transfer| JoinedWrite {
        view: &view,
        transfer,
        data: vec![9; bytes as usize].into(),
    });
    let refused = write_joined(twice.into(), Overlaps::Refuse)
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("members 0 and 1 both write byte"),
        "{refused}"
    );
    test.stop().await;
}

/// The bytes of two members go backwards: each round has one run per member on the wire and 256
/// runs in memory.
#[tokio::test(flavor = "multi_thread")]
async fn joined_requests_of_many_rounds_keep_their_members_apart() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let view = create(&volume, "/rounds", 1, 64 << 10).await;
    let view = view.canonical().unwrap();
    let backwards = Pattern::bytes(8).every(-8).times(256);
    let far = backwards.every(8 << 20).times(4);
    let transfers = [2040, 2040 + 4096].map(|at| Transfer::of(far.clone()).at(ViewOffset(at)));
    let data = [1u8, 2].map(|member| {
        let bytes = (0..4 * 2048u32).map(|i| ((i / 8 * 2) as u8).wrapping_add(member * 101));
        bytes.collect::<Bytes>()
    });
    let members = transfers
        .iter()
        .zip(&data)
        .map(|(transfer, data)| JoinedWrite {
            view: &view,
            transfer,
            data: data.clone(),
        });
    let written = write_joined(members.collect(), Overlaps::Refuse).await;
    assert_eq!(written.unwrap(), 4 * 4096);
    let mut joined = [vec![0; 4 * 2048], vec![0; 4 * 2048]];
    for (transfer, data) in transfers.iter().zip(&data) {
        let mut alone = vec![0; 4 * 2048];
        view.read_with(transfer, &mut alone).await.unwrap();
        assert!(alone == *data, "a read of one member returns other bytes");
    }
    let members = transfers.iter().zip(&mut joined);
    let members = members.map(|(transfer, buffer)| JoinedRead {
        view: &view,
        transfer,
        buffer,
    });
    assert_eq!(read_joined(members.collect()).await.unwrap(), 4 * 4096);
    for (joined, data) in joined.iter().zip(&data) {
        assert!(joined == data, "a joined read returns other bytes");
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_members_fill_together_are_not_read_first() {
    let mut test = TestVolume::start(1).await;
    let bytes = 1u64 << 20;
    {
        let volume = test.client().await;
        let file = create(&volume, "/old", 2, 64 << 10).await;
        let view = file.canonical().unwrap();
        view.write_at_synced(ViewOffset(0), vec![1; bytes as usize].into())
            .await
            .unwrap();
        file.close().await.unwrap();
    }
    for alone in [false, true] {
        // A restart empties the cache.
        test.stop_server(0).await;
        test.start_server(0).await;
        let volume = test.client().await;
        let view = canonical(&volume, "/old").await;
        let before = counters(&test).disk_read_bytes;
        let done = together(4, |i| {
            let (view, transfer) = (&view, records(4, i.into(), bytes));
            async move {
                let data = Bytes::from(vec![7; (bytes / 4) as usize]);
                let group = group("fill", 4, i);
                if alone {
                    view.write_with(&transfer, data).await
                } else {
                    Ok(view.collective(&group).write(&transfer, data).await?.bytes)
                }
            }
        })
        .await;
        assert!(done.iter().all(Result::is_ok), "{done:?}");
        let read = counters(&test).disk_read_bytes - before;
        assert_eq!(read > 0, alone, "{read} bytes were read");
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overlapping_writes_of_members_are_refused_or_applied_in_member_order() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    create(&volume, "/same", 2, 8).await;
    let view = canonical(&volume, "/same").await;
    let write = |overlaps: Overlaps| {
        let view = &view;
        together(3, move |i| async move {
            let group = group("same", 3, i).overlaps(overlaps);
            let (at, data) = (ViewOffset(4 * u64::from(i)), vec![b'a' + i as u8; 8]);
            view.collective(&group).write_at(at, data.into()).await
        })
    };
    for refused in write(Overlaps::Refuse).await {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Code::Invalid);
        assert!(error.to_string().contains("both write byte"), "{error}");
    }
    assert!(write(Overlaps::MemberOrder).await.iter().all(Result::is_ok));
    let mut all = [0; 16];
    view.read_at(ViewOffset(0), &mut all).await.unwrap();
    assert_eq!(&all, b"aaaabbbbcccccccc");
    test.stop().await;
}

async fn one(view: &OpenView, group: &Group, byte: u8) -> Result<Collected, Error> {
    let at = ViewOffset(100 * u64::from(group.member()));
    view.collective(group)
        .write_at(at, vec![byte; 100].into())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_members_are_named_whether_the_collective_fails_or_goes_on() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    create(&volume, "/missing", 2, 64).await;
    let view = canonical(&volume, "/missing").await;
    let short = |id: &str, i| group(id, 5, i).wait(Duration::from_millis(400));
    let failed = join_all([0, 2, 3].map(|i| {
        let view = &view;
        async move { one(view, &short("fails", i), 1).await }
    }));
    for failed in failed.await {
        let error = failed.unwrap_err();
        assert_eq!(error.code(), Code::MembersMissing);
        assert!(
            error.to_string().contains("members 1, 4 of group `fails`"),
            "{error}"
        );
    }
    assert_eq!(view.size().await.unwrap(), 0);
    let late = one(&view, &short("fails", 4), 1).await.unwrap_err();
    assert!(
        late.to_string()
            .contains("members 0, 1, 2, 3 of group `fails`"),
        "{late}"
    );

    let go_on = |i| short("goes on", i).missing(Missing::GoOn);
    let done = join_all([0, 2, 3].map(|i| {
        let view = &view;
        async move { one(view, &go_on(i), 1).await }
    }));
    for done in done.await {
        let (bytes, missing) = (100, vec![1, 4]);
        assert_eq!(done.unwrap(), Collected { bytes, missing });
    }
    let mut all = [9; 500];
    view.read_at(ViewOffset(0), &mut all).await.unwrap();
    let held: Vec<u8> = all.chunks(100).map(|part| part[50]).collect();
    assert_eq!(held, [1, 0, 1, 1, 9]);
    // A late member writes its share and gets the list of missing members.
    let late = one(&view, &go_on(4), 1).await.unwrap();
    let (bytes, missing) = (100, vec![0, 1, 2, 3]);
    assert_eq!(late, Collected { bytes, missing });
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_member_leaves_its_place_to_another() {
    let test = TestVolume::start(2).await;
    let (volume, other) = (test.client().await, test.client().await);
    create(&volume, "/place", 2, 64).await;
    let (view, others) = (
        canonical(&volume, "/place").await,
        canonical(&other, "/place").await,
    );
    let [a, b, c] = [0, 1, 1].map(|i| group("place", 2, i));
    {
        let given_up = one(&view, &b, 5);
        let given_up = tokio::time::timeout(Duration::from_millis(200), given_up).await;
        assert!(given_up.is_err(), "the other member has not come");
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (first, second) = tokio::join!(one(&view, &a, 1), one(&others, &c, 2));
    assert_eq!((first.unwrap().bytes, second.unwrap().bytes), (100, 100));
    let mut all = [0; 200];
    view.read_at(ViewOffset(0), &mut all).await.unwrap();
    assert_eq!((all[50], all[150]), (1, 2));
    // The terms of members that have left do not bind later members.
    {
        let given_up = group("place", 2, 1).sequence(1);
        let given_up = given_up.overlaps(Overlaps::MemberOrder);
        let given_up = one(&view, &given_up, 5);
        let given_up = tokio::time::timeout(Duration::from_millis(200), given_up).await;
        assert!(given_up.is_err(), "the other member has not come");
    }
    let [a, b] = [0, 1].map(|i| group("place", 2, i).sequence(1));
    let (first, second) = tokio::join!(one(&view, &a, 3), one(&view, &b, 4));
    assert_eq!((first.unwrap().bytes, second.unwrap().bytes), (100, 100));
    // Two members with the same number are refused.
    let [a, b] = [0, 0].map(|i| group("twice", 2, i).wait(Duration::from_millis(500)));
    let (first, second) = tokio::join!(one(&view, &a, 1), one(&others, &b, 2));
    let words = [first, second]
        .map(|r| r.unwrap_err().to_string())
        .join("\n");
    assert!(
        words.contains("member 0 of group `twice` has come already"),
        "{words}"
    );
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_disagree_are_refused_with_the_reason() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    create(&volume, "/agree", 1, 64).await;
    let view = canonical(&volume, "/agree").await;
    let short = |members, i| group("agree", members, i).wait(Duration::from_secs(2));
    let (a, b, c) = (short(3, 0), short(4, 1), short(3, 1));
    let reading = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let read = view
            .collective(&c)
            .read_at(ViewOffset(0), &mut [0; 5])
            .await;
        (one(&view, &b, 1).await, read)
    };
    let (waited, (counted, read)) = tokio::join!(one(&view, &a, 1), reading);
    assert_eq!(waited.unwrap_err().code(), Code::MembersMissing);
    let error = counted.unwrap_err().to_string();
    assert!(
        error.contains("do not agree on how many members there are"),
        "{error}"
    );
    let error = read.unwrap_err().to_string();
    assert!(error.contains("whether to read or to write"), "{error}");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_members_reconnect_to_a_server_that_restarts_during_a_collective() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    create(&volume, "/restart", 2, 4 << 10).await;
    let bytes = 8u64 << 20;
    // The server restarts during the gathering (one member arrives last), then during the job.
    for (round, late) in [(1u8, 300u64), (2, 0), (3, 0)] {
        let mut tasks = Vec::new();
        for i in 0..3u32 {
            let view = canonical(&test.client().await, "/restart").await;
            tasks.push(tokio::spawn(async move {
                if i == 2 {
                    tokio::time::sleep(Duration::from_millis(late)).await;
                }
                let group = group("restart", 4, i).sequence(round.into());
                let data = vec![round * 10 + i as u8; (bytes / 4) as usize];
                view.collective(&group)
                    .write(&records(4, i.into(), bytes), data.into())
                    .await
            }));
        }
        let last = canonical(&volume, "/restart").await;
        let last_group = group("restart", 4, 3).sequence(round.into());
        let data = vec![round * 10 + 3; (bytes / 4) as usize];
        let transfer = records(4, 3, bytes);
        let last = last.collective(&last_group);
        let writing = last.write(&transfer, data.into());
        let restarting = async {
            tokio::time::sleep(Duration::from_millis(60 * u64::from(round))).await;
            test.stop_server(1).await;
            test.start_server(1).await;
        };
        let (written, ()) = tokio::join!(writing, restarting);
        let mut all_written = vec![written];
        for task in tasks {
            all_written.push(task.await.unwrap());
        }
        let done = all_written.iter().flatten().count();
        for written in all_written {
            match written {
                Ok(collected) => assert_eq!(collected.bytes, bytes / 4),
                // The server stopped between the replies of a finished job: the members without a
                // reply get an error.
                Err(e) => {
                    assert!(round > 1 && done > 0, "{e}");
                    assert_eq!(e.code(), Code::MembersMissing, "{e}");
                    assert!(e.to_string().contains("was lost meanwhile"), "{e}");
                }
            }
        }
        let view = canonical(&volume, "/restart").await;
        let mut all = vec![0; bytes as usize];
        view.read_at(ViewOffset(0), &mut all).await.unwrap();
        let right = |at: &usize| all[*at] == round * 10 + (at / 64 % 4) as u8;
        let wrong = (0..all.len()).find(|at| !right(at));
        let wrong = wrong.map(|at| (at, &all[at..at + 80]));
        assert_eq!(wrong, None, "round {round}");
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_attaches_and_creates_a_file_with_one_request() {
    let test = TestVolume::start(2).await;
    let access = || weft_client::Access::read_write().create_new(0o644);
    let volumes = join_all((0..3).map(|_| test.client())).await;
    let (give, take) = tokio::sync::watch::channel(Vec::new());
    let attached = join_all(volumes.iter().enumerate().map(|(i, volume)| {
        let (give, mut take) = (&give, take.clone());
        async move {
            let group = group("attach", 3, i as u32);
            let share = async |handed: Option<Vec<u8>>| {
                if let Some(handed) = handed {
                    give.send_replace(handed);
                }
                let handed = take.wait_for(|h| !h.is_empty()).await;
                handed.map(|h| h.clone()).map_err(std::io::Error::other)
            };
            let file = group.attach(volume, "/new", access(), share).await.unwrap();
            one(&file.canonical().unwrap(), &group, 7).await.unwrap();
            file
        }
    }));
    let files = attached.await;
    for file in files.iter().rev() {
        file.close().await.unwrap();
    }
    let calls: Vec<u64> = volumes
        .iter()
        .map(|v| v.counters().calls_of(Kind::Attach))
        .collect();
    assert_eq!(calls, [1, 0, 0]);
    assert_eq!(volumes[1].stat("/new").await.unwrap().size, 300);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_bytes_takes_part() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/nothing", 3, 64).await;
    let view = file.view(View::canonical()).unwrap();
    let done = together(2, |i| {
        let view = &view;
        async move {
            let group = group("nothing", 2, i);
            let data = vec![1; 1000 * i as usize];
            view.collective(&group)
                .write_at(ViewOffset(0), data.into())
                .await
        }
    })
    .await;
    let bytes: Vec<u64> = done.into_iter().map(|d| d.unwrap().bytes).collect();
    assert_eq!(bytes, [0, 1000]);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_an_invalid_call_stays_in_step_with_the_others() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let view = create(&volume, "/step", 1, 64).await;
    let view = view.canonical().unwrap();
    let [first, second] = [0, 1].map(|i| group("step", 2, i).wait(Duration::from_millis(500)));
    let all = Transfer::of(Pattern::bytes(100));
    let data = |bytes| Bytes::from(vec![1; bytes]);
    let short = view.collective(&first).write(&all, data(99)).await;
    assert!(matches!(short, Err(Error::Buffer { .. })));
    let missing = view.collective(&second).write(&all, data(100)).await;
    assert_eq!(missing.unwrap_err().code(), Code::MembersMissing);
    let short = view.collective(&first).read(&all, &mut [0; 99]).await;
    assert!(matches!(short, Err(Error::Buffer { .. })));
    let missing = view.collective(&second).read(&all, &mut [0; 100]).await;
    assert_eq!(missing.unwrap_err().code(), Code::MembersMissing);
    let (first, second) = tokio::join!(one(&view, &first, 3), one(&view, &second, 4));
    assert_eq!((first.unwrap().bytes, second.unwrap().bytes), (100, 100));
    test.stop().await;
}

/// A member that fails at once goes on; the others wait for it, and do not fall behind for good.
#[tokio::test(flavor = "multi_thread")]
async fn members_learn_that_one_went_on_without_them() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let view = create(&volume, "/passed", 2, 64).await;
    let view = view.canonical().unwrap();
    let [first, second] = [0, 1].map(|i| group("passed", 2, i));
    first.skip();
    let began = std::time::Instant::now();
    let fails_then_goes_on = async {
        let missing = one(&view, &second, 2).await.unwrap_err();
        (missing, one(&view, &second, 2).await)
    };
    let (done, (missing, also)) = tokio::join!(one(&view, &first, 1), fails_then_goes_on);
    assert_eq!(missing.code(), Code::MembersMissing);
    assert!(
        missing.to_string().contains("called a later one"),
        "{missing}"
    );
    assert_eq!((done.unwrap().bytes, also.unwrap().bytes), (100, 100));
    assert!(began.elapsed() < Duration::from_secs(8));
    test.stop().await;
}

/// A process that ended is not waited for as long as one that is late.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_whose_process_is_gone_is_waited_for_less_than_ten_seconds() {
    let test = TestVolume::start(2).await;
    let (volume, other) = (test.client().await, test.client().await);
    let view = create(&volume, "/gone", 2, 64).await;
    let view = view.canonical().unwrap();
    let theirs = canonical(&other, "/gone").await;
    let [first, second] = [0, 1].map(|i| group("gone", 2, i));
    let (done, also) = tokio::join!(one(&view, &first, 1), one(&theirs, &second, 2));
    assert_eq!((done.unwrap().bytes, also.unwrap().bytes), (100, 100));
    drop((theirs, other));
    let began = std::time::Instant::now();
    let missing = one(&view, &first, 1).await.unwrap_err();
    assert_eq!(missing.code(), Code::MembersMissing);
    assert!(missing.to_string().contains("gone"), "{missing}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collective_ends_within_ten_seconds_if_a_server_is_gone() {
    let mut test = TestVolume::start(2).await;
    let volume = test.client().await;
    let view = create(&volume, "/server-gone", 2, 64).await;
    let view = view.canonical().unwrap();
    test.stop_server(1).await;
    let began = std::time::Instant::now();
    let gone = one(&view, &group("server-gone", 1, 0), 1).await;
    assert_eq!(gone.unwrap_err().code(), Code::Unavailable);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    test.stop().await;
}

/// An overlap within one member does not hide an overlap between two.
#[tokio::test(flavor = "multi_thread")]
async fn an_overlap_of_members_is_detected_although_one_overlaps_itself() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let view = create(&volume, "/twice", 1, 64).await;
    let view = view.canonical().unwrap();
    let write = |overlaps: Overlaps| {
        let view = &view;
        together(2, move |i| async move {
            let group = group("twice", 2, i).overlaps(overlaps);
            let (transfer, data) = if i == 0 {
                let twice = Pattern::list([(0, 4), (2, 4)]);
                (Transfer::of(twice).last_wins(), vec![b'a'; 8])
            } else {
                let four = Transfer::of(Pattern::bytes(4));
                (four.at(ViewOffset(4)), vec![b'b'; 4])
            };
            view.collective(&group).write(&transfer, data.into()).await
        })
    };
    for refused in write(Overlaps::Refuse).await {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("members 0 and 1 both write byte"), "{error}");
    }
    assert_eq!(view.size().await.unwrap(), 0);
    let written = write(Overlaps::MemberOrder).await;
    assert!(written.iter().all(Result::is_ok), "{written:?}");
    test.stop().await;
}

/// Members access a subfile of whole blocks cell after cell, in more pieces than one comparison
/// takes.
#[tokio::test(flavor = "multi_thread")]
async fn many_disjoint_pieces_in_cell_order_are_accepted() {
    let test = TestVolume::start(1).await;
    let volume = test.client().await;
    let file = create(&volume, "/blocked", 2, 64).await;
    let subfile = Subfile {
        vbs: 65_536,
        vn: 1,
        hbs: 2,
        hn: 1,
        index: 0,
        order: Order::Default,
    };
    let view = file.view(View::Subfile(subfile)).unwrap();
    let written = together(2, |i| {
        let view = &view;
        async move {
            let group = group("blocked", 2, i);
            let records = Pattern::bytes(32).every(64).times(196_608);
            let transfer = Transfer::of(records).at(ViewOffset(32 * u64::from(i)));
            let data = vec![i as u8 + 1; 32 * 196_608];
            view.collective(&group).write(&transfer, data.into()).await
        }
    })
    .await;
    for written in written {
        assert_eq!(written.unwrap().bytes, 32 * 196_608);
    }
    let mut all = vec![0; 64 * 196_608];
    view.read_at(ViewOffset(0), &mut all).await.unwrap();
    let right = |(at, byte): (usize, &u8)| *byte == (at / 32 % 2) as u8 + 1;
    assert!(all.iter().enumerate().all(right));
    test.stop().await;
}
