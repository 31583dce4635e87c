//! Clients that die during large calls: servers free their memory, and no client waits for them.

use crate::common;

use std::time::{Duration, Instant};

use common::TestVolume;
use futures_util::future::join_all;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weft_client::{Access, ConnectOptions, Error, Group, NewLayout, OpenView, Transfer, Volume};
use weft_layout::{Pattern, ViewOffset};
use weft_proto::Code;

/// Bytes of each member of a collective: two clients that never freed as much would leave no
/// memory for a third.
const SHARE: usize = 80 << 20;
const PIECE: u32 = 64 << 10;

async fn opened(options: ConnectOptions, path: &str) -> (Volume, OpenView) {
    let volume = Volume::connect(options).await.unwrap();
    let layout = NewLayout {
        cells: Some(2),
        bsu: Some(4096),
        ..NewLayout::default()
    };
    let access = Access::read_write().create(0o644).layout(&layout);
    let file = volume.attach(path, access).await.unwrap();
    let view = file.canonical().unwrap();
    (volume, view)
}

/// Every second piece, starting at the member's own.
fn pieces(member: u32, bytes: usize) -> Transfer {
    let times = (bytes / PIECE as usize) as u64;
    let all = Pattern::bytes(u64::from(PIECE))
        .every(2 * i64::from(PIECE))
        .times(times);
    Transfer::of(all).at(ViewOffset(u64::from(member * PIECE)))
}

async fn together(view: &OpenView, group: &Group, bytes: usize) -> Result<(), Error> {
    let data = vec![1 + group.member() as u8; bytes];
    let transfer = pieces(group.member(), bytes);
    view.collective(group).write(&transfer, data.into()).await?;
    Ok(())
}

/// Repeats one kind of large call until the client is killed.
async fn live(options: ConnectOptions, round: u64) {
    let (_volume, view) = opened(options, "/f").await;
    let group = Group::new(format!("doomed {round}"), 2, 0);
    loop {
        match round % 4 {
            0 => drop(view.write_at(ViewOffset(0), vec![1; SHARE].into()).await),
            1 => drop(view.read_at(ViewOffset(0), &mut vec![0; SHARE]).await),
            2 => drop(
                view.write_with(&pieces(0, SHARE), vec![1; SHARE].into())
                    .await,
            ),
            _ => drop(together(&view, &group, SHARE).await),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_dead_clients_is_freed_and_no_client_waits_for_them() {
    let test = TestVolume::start(2).await;
    let (_volume, view) = opened(test.options(), "/f").await;
    let mut rng = SmallRng::seed_from_u64(5);
    for round in 0..16 {
        let options = test.options();
        let doomed = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        doomed.spawn(live(options, round));
        let lives = Duration::from_millis(rng.random_range(5..120));
        let collective = async {
            // The other member of this group dies: each write succeeds or fails soon.
            let group = Group::new(format!("doomed {round}"), 2, 1).wait(Duration::from_secs(2));
            let mut told = None;
            while round % 4 == 3 && told.is_none() {
                told = together(&view, &group, SHARE).await.err();
            }
            told
        };
        let death = async {
            tokio::time::sleep(lives).await;
            // Like a kill, the shutdown ends no call and sends no message.
            doomed.shutdown_background();
            Instant::now()
        };
        let (told, died) = tokio::join!(collective, death);
        assert!(died.elapsed() < Duration::from_secs(20), "round {round}");
        if let Some(error) = told {
            assert_eq!(error.code(), Code::MembersMissing, "{error}");
        }
    }
    // A collective that needs the memory of the dead clients succeeds.
    let group = |member| Group::new("survivors", 2, member).wait(Duration::from_secs(20));
    let bytes = SHARE;
    let done = join_all([0, 1].map(|member| {
        let view = &view;
        async move { together(view, &group(member), bytes).await }
    }));
    let done = tokio::time::timeout(Duration::from_mins(1), done).await;
    for done in done.expect("the servers have freed the memory") {
        done.unwrap();
    }
    let mut found = vec![0; 2 * SHARE];
    view.read_at(ViewOffset(0), &mut found).await.unwrap();
    for (i, piece) in found.chunks(PIECE as usize).enumerate() {
        assert!(piece.iter().all(|b| *b == 1 + (i % 2) as u8), "piece {i}");
    }
    drop(found);
    test.stop().await;
}
