//! Recorded histories of random runs on real servers, judged by the referee and by a
//! linearizability checker of others.

use crate::common;

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use common::TestVolume;
use futures_util::future::join_all;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::Action;
use todc_utils::specifications::Specification;
use weft_client::{Access, NewLayout, OpenView, Policy, Volume, record_history};
use weft_layout::{Pattern, Storage, View, ViewOffset};
use weft_referee::{Event, FindingKind, History, Piece, Report, What, check};

const SERVERS: u32 = 3;
const CHUNK: u64 = 4096;
/// Chunks of a file, dealt to the servers in turn.
const CHUNKS: u64 = 6;
const STAMP: usize = 8;

async fn client(test: &TestVolume, folder: &Path) -> Volume {
    let mut options = test.options();
    options.history = Some(record_history(folder).unwrap());
    Volume::connect(options).await.unwrap()
}

async fn open(volume: &Volume, path: &str, policy: Option<Policy>) -> OpenView {
    let layout = NewLayout {
        bsu: Some(CHUNK),
        chunk: Some(CHUNK as u32),
        storage: Some(Storage::Addressed),
        ..NewLayout::default()
    };
    let mut access = Access::read_write().create(0o644).layout(&layout);
    if let Some(policy) = policy {
        access = access.policy(policy);
    }
    let file = volume.attach(path, access).await.unwrap();
    file.view(View::canonical()).unwrap()
}

/// Random operations of one client: each write has bytes that no other has.
struct Work {
    volume: Volume,
    path: String,
    policy: Option<Policy>,
    number: u64,
    operations: u64,
    /// Operations touch whole chunks only.
    whole_chunks: bool,
}

impl Work {
    async fn run(self) {
        let mut rng = SmallRng::seed_from_u64(self.number);
        let mut view = open(&self.volume, &self.path, self.policy).await;
        for n in 0..self.operations {
            let stamp = ((self.number << 32) | (n + 1)).to_le_bytes();
            let chunk = rng.random_range(0..CHUNKS);
            let unit = if self.whole_chunks { CHUNK } else { 1000 };
            let start = chunk * unit;
            let length = unit * rng.random_range(1..=CHUNKS - chunk);
            match rng.random_range(0..20) {
                0..8 => {
                    let data = stamp.repeat(length as usize / STAMP);
                    view.write_at(ViewOffset(start), data.into()).await.unwrap();
                }
                8 if !self.whole_chunks => {
                    // Two of three runs of 500 bytes.
                    let pattern = Pattern::list((0..8).map(|n| (n * 750, 500)));
                    let data: Bytes = stamp.repeat(500).into();
                    let transfer = weft_client::Transfer::of(pattern).at(ViewOffset(start));
                    view.write_with(&transfer, data).await.unwrap();
                }
                9 => view.file().sync().await.unwrap(),
                10 => {
                    view.file().close().await.unwrap();
                    view = open(&self.volume, &self.path, self.policy).await;
                }
                11 => view.clear(ViewOffset(start), length).await.unwrap(),
                _ => {
                    let mut buffer = vec![0; length as usize];
                    view.read_at(ViewOffset(start), &mut buffer).await.unwrap();
                }
            }
        }
        view.file().close().await.unwrap();
    }
}

async fn recorded(
    test: &TestVolume,
    path: &str,
    policies: &[Option<Policy>],
    operations: u64,
    whole_chunks: bool,
) -> History {
    let folder = tempfile::tempdir().unwrap();
    let first = client(test, folder.path()).await;
    let view = open(&first, path, policies[0]).await;
    let data = vec![255; (CHUNK * CHUNKS) as usize];
    view.write_at(ViewOffset(0), data.into()).await.unwrap();
    view.file().close().await.unwrap();
    let mut work = Vec::new();
    for (number, policy) in policies.iter().enumerate() {
        let work_of = Work {
            volume: client(test, folder.path()).await,
            path: path.to_owned(),
            policy: *policy,
            number: number as u64 + 1,
            operations,
            whole_chunks,
        };
        work.push(tokio::spawn(work_of.run()));
    }
    for done in join_all(work).await {
        done.unwrap();
    }
    let history = History::read(folder.path()).unwrap();
    // Nobody is silent, so nobody is waited for as one who is.
    let slow = history.events.iter().find(|event| {
        let took = event.end.map(|end| end - event.begin);
        took.is_some_and(|took| took > 4_500_000_000)
    });
    assert!(slow.is_none(), "{path}: {slow:?}");
    history
}

#[track_caller]
fn no_violation(report: &Report, about: &str) {
    let violation = report.first(FindingKind::Violation);
    assert!(violation.is_none(), "{about}: {violation:#?}");
    assert!(report.first(FindingKind::Unchecked).is_none(), "{about}");
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_of_random_runs_keep_the_promises_of_every_policy() {
    let test = TestVolume::start(SERVERS).await;
    let mixes: [(&str, [Option<Policy>; 4]); 6] = [
        ("none", [None; 4]),
        (
            "forced",
            [
                Some(Policy::FOR_1),
                Some(Policy::FOR_2),
                Some(Policy::FOR_2),
                None,
            ],
        ),
        (
            "relaxed",
            [
                Some(Policy::REL_1),
                Some(Policy::FOR_2),
                Some(Policy::REL_1),
                None,
            ],
        ),
        (
            "sessions",
            [
                Some(Policy::SESSION),
                Some(Policy::NFS),
                Some(Policy::SESSION),
                None,
            ],
        ),
        (
            "ordered",
            [
                Some(Policy::SEQ_2),
                Some(Policy::SEQ_1),
                Some(Policy::POSIX),
                Some(Policy::SEQ_2),
            ],
        ),
        (
            "mixed",
            [
                Some(Policy::SEQ_2),
                Some(Policy::FOR_2),
                Some(Policy::REL_1),
                Some(Policy::POSIX),
            ],
        ),
    ];
    for (name, policies) in mixes {
        let history = recorded(&test, &format!("/{name}"), &policies, 80, false).await;
        let report = check(&history);
        no_violation(&report, name);
        assert!(
            report.reads > 80 && report.changes > 80,
            "{name}: {report:?}"
        );
        if name == "ordered" {
            assert!(
                report.in_order > 250 && report.findings.is_empty(),
                "{report:?}"
            );
        }
    }
    test.stop().await;
}

/// An operation on whole chunks: what each that it touches is written to, or was read as.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chunks {
    writes: bool,
    touched: BTreeMap<u64, u64>,
}

impl Specification for Chunks {
    type State = [u64; CHUNKS as usize];
    type Operation = Chunks;

    fn init() -> Self::State {
        [0; CHUNKS as usize]
    }

    fn apply(op: &Chunks, state: &Self::State) -> (bool, Self::State) {
        let mut after = *state;
        for (chunk, value) in &op.touched {
            let now = &mut after[*chunk as usize];
            if op.writes {
                *now = *value;
            } else if now != value {
                return (false, *state);
            }
        }
        (true, after)
    }
}

fn chunks_of(event: &Event) -> Option<Chunks> {
    let (pieces, bytes): (&[Piece], &[u8]) = match &event.what {
        What::Read { pieces, bytes } | What::Write { pieces, bytes } => (pieces, bytes),
        What::Clear { pieces } => (pieces, &[]),
        _ => return None,
    };
    let (mut touched, mut at) = (BTreeMap::new(), 0);
    for piece in pieces {
        let end = piece.offset + piece.length;
        for row in (piece.offset..end).step_by(CHUNK as usize) {
            let stamp = bytes
                .get(at..at + STAMP)
                .map_or(0, |stamp| u64::from_le_bytes(stamp.try_into().unwrap()));
            // Cells lie in turn on all servers.
            let chunk = row / CHUNK * u64::from(SERVERS) + u64::from(piece.cell);
            touched.insert(chunk, stamp);
            at += CHUNK as usize;
        }
    }
    let writes = !matches!(event.what, What::Read { .. });
    Some(Chunks { writes, touched })
}

/// Whether an existing checker finds one order of all operations.
fn is_linearizable(history: &History) -> bool {
    let mut moments = Vec::new();
    for event in &history.events {
        if let Some(op) = chunks_of(event) {
            let process = event.open.0 as usize;
            // Of moments that are the same, calls come first: the operations overlap.
            moments.push((event.begin, 0, process, Action::Call(op.clone())));
            moments.push((event.end.unwrap(), 1, process, Action::Response(op)));
        }
    }
    moments.sort_by_key(|(at, kind, ..)| (*at, *kind));
    let mut numbers = BTreeMap::new();
    let actions = moments.into_iter().map(|(_, _, process, action)| {
        let next = numbers.len();
        (*numbers.entry(process).or_insert(next), action)
    });
    let actions = todc_utils::linearizability::history::History::from_actions(actions.collect());
    WGLChecker::<Chunks>::is_linearizable(actions)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_checker_finds_operations_in_order_linearizable() {
    let test = TestVolume::start(SERVERS).await;
    for (number, policies) in [
        [Policy::SEQ_2; 4],
        [Policy::SEQ_1, Policy::SEQ_2, Policy::POSIX, Policy::SEQ_2],
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{number}");
        let mut history = recorded(&test, &path, &policies.map(Some), 60, true).await;
        no_violation(&check(&history), &path);
        assert!(is_linearizable(&history), "{number}");
        // Both see it when a read returns what another one has overwritten.
        let reads = history
            .events
            .iter_mut()
            .filter_map(|event| match &mut event.what {
                What::Read { bytes, .. } if bytes[..STAMP] != [255; STAMP] => Some(bytes),
                _ => None,
            });
        reads.last().unwrap()[..CHUNK as usize].fill(255);
        let wrong = check(&history);
        assert!(wrong.first(FindingKind::Violation).is_some());
        assert!(!is_linearizable(&history));
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_referee_names_the_first_read_that_relied_on_more_than_a_session() {
    let test = TestVolume::start(SERVERS).await;
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (
        client(&test, folder.path()).await,
        client(&test, folder.path()).await,
    );
    let writer = open(&one, "/f", Some(Policy::SESSION)).await;
    let reader = open(&two, "/f", Some(Policy::SESSION)).await;
    let data = Bytes::from(vec![7; CHUNK as usize]);
    writer.write_at(ViewOffset(0), data).await.unwrap();
    // It is there, and the reader has no names yet: it sees what it has no right to see.
    let mut found = [0; 16];
    reader.read_at(ViewOffset(0), &mut found).await.unwrap();
    assert_eq!(found, [7; 16]);
    writer.file().close().await.unwrap();
    reader.file().close().await.unwrap();
    let again = open(&two, "/f", Some(Policy::SESSION)).await;
    again.read_at(ViewOffset(0), &mut found).await.unwrap();
    let report = check(&History::read(folder.path()).unwrap());
    let [relied] = &report.findings[..] else {
        panic!("{report:#?}");
    };
    assert_eq!(
        (relied.kind, relied.path.as_str()),
        (FindingKind::Relied, "/f")
    );
    assert!(
        relied
            .text
            .ends_with("it is promised by for-1 and for-2, posix, seq-1 and seq-2"),
        "{}",
        relied.text
    );
    test.stop().await;
}
