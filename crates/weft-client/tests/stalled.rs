//! Members of a group that stall after they arrive: a stopped process keeps its connection open and
//! moves no bytes.

use crate::common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::stopping::Stop;
use common::{TestVolume, one_cell as view};
use weft_client::{Group, Missing, OpenView};
use weft_layout::ViewOffset;
use weft_proto::Code;

const PART: usize = 8 << 20;

struct Rig {
    test: TestVolume,
    sound: OpenView,
    stopping: OpenView,
    stop: Arc<Stop>,
}

async fn rig(path: &str) -> Rig {
    let test = TestVolume::start(1).await;
    let sound = view(&test.client().await, path).await;
    let (stopping, stop) = test.stopping_client().await;
    let stopping = view(&stopping, path).await;
    // The client connects to the server before it stops.
    stopping.size().await.unwrap();
    Rig {
        test,
        sound,
        stopping,
        stop,
    }
}

fn group(id: &str, member: u32, missing: Missing) -> Group {
    let wait = Duration::from_millis(1500);
    Group::new(id, 2, member).wait(wait).missing(missing)
}

fn in_time(began: Instant) {
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

async fn writes(missing: Missing) -> (Rig, Result<weft_client::Collected, weft_client::Error>) {
    let rig = rig("/written").await;
    let began = Instant::now();
    rig.stop.reads.stop();
    rig.stop.writes.stop();
    let part = |byte: u8| Bytes::from(vec![byte; PART]);
    let theirs = group("writes", 1, missing);
    let stands = rig.stopping.collective(&theirs);
    let stands = stands.write_at(ViewOffset(PART as u64), part(2));
    let ours = group("writes", 0, missing);
    let result = {
        let mine = rig.sound.collective(&ours);
        let mine = mine.write_at(ViewOffset(0), part(1));
        tokio::select! {
            result = mine => result,
            other = stands => panic!("a stopped member came through: {other:?}"),
        }
    };
    in_time(began);
    (rig, result)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_stalls_during_a_write_fails_it_for_all_after_the_timeout() {
    let (rig, result) = writes(Missing::Fail).await;
    let error = result.unwrap_err();
    assert_eq!(error.code(), Code::MembersMissing);
    assert!(error.to_string().contains("member 1"), "{error}");
    rig.test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_continues_without_a_stalled_member_if_the_group_allows_it() {
    let (rig, result) = writes(Missing::GoOn).await;
    let collected = result.unwrap();
    assert_eq!(
        (collected.bytes, &collected.missing[..]),
        (PART as u64, &[1][..])
    );
    let mut all = vec![0; PART];
    rig.sound.read_at(ViewOffset(0), &mut all).await.unwrap();
    assert!(all.iter().all(|byte| *byte == 1));
    // The stalled member holds nothing any more: the server accepts other writes.
    rig.sound
        .write_at(ViewOffset(7), Bytes::from_static(b"on"))
        .await
        .unwrap();
    rig.test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_stops_reading_delays_the_others_only_until_its_timeout() {
    let rig = rig("/read").await;
    let content = Bytes::from(vec![5; PART]);
    rig.sound.write_at(ViewOffset(0), content).await.unwrap();
    let began = Instant::now();
    let theirs = group("reads", 1, Missing::Fail);
    let ours = group("reads", 0, Missing::Fail);
    let (mut mine, mut other) = (vec![0; PART], vec![0; PART]);
    rig.stop.reads.stop();
    {
        let stands = rig.stopping.collective(&theirs);
        let stands = stands.read_at(ViewOffset(0), &mut other);
        let takes = rig.sound.collective(&ours);
        let takes = takes.read_at(ViewOffset(0), &mut mine);
        tokio::select! {
            result = takes => assert_eq!(result.unwrap().bytes, PART as u64),
            other = stands => panic!("a stopped member came through: {other:?}"),
        }
    }
    in_time(began);
    assert!(mine.iter().all(|byte| *byte == 5));
    rig.test.stop().await;
}
