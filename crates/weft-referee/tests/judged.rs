//! Histories by hand.

use weft_policy::{Kept, Values};
use weft_referee::{
    Event, FindingKind, History, OpenId, Piece, Promise, Recorder, Report, What, check,
};

/// Builds a history; times are in milliseconds.
#[derive(Default)]
pub struct Story(pub Vec<Event>);

pub fn values(policy: &str) -> Values {
    let own = |believed: u64, until_sync| Values {
        names: Kept::Own {
            believed: (believed > 0).then(|| std::time::Duration::from_millis(believed)),
            until_sync,
        },
        ..Values::RECKLESS
    };
    match policy {
        "posix" => Values {
            in_order: true,
            ..Values::RECKLESS
        },
        "for-1" => Values::RECKLESS,
        "rel-1" => own(0, true),
        "session" => own(0, false),
        "nfs" => own(3000, false),
        other => panic!("{other}"),
    }
}

const MS: i64 = 1_000_000;

impl Story {
    pub fn push(&mut self, open: u64, begin: i64, end: Option<i64>, what: What) {
        self.0.push(Event {
            begin: begin * MS,
            end: end.map(|end| end * MS),
            open: OpenId(open),
            what,
        });
    }

    pub fn open(&mut self, open: u64, policy: &str, at: i64) {
        let what = What::Open {
            file: 1,
            path: "/f".to_owned(),
            created: true,
            promise: Promise::of(policy, values(policy)),
        };
        self.push(open, at, Some(at), what);
    }

    /// A write of whole cells, each of 10 bytes, of one byte.
    pub fn write(&mut self, open: u64, begin: i64, end: i64, cells: &[u32], byte: u8) {
        self.push(
            open,
            begin,
            Some(end),
            What::Write {
                pieces: pieces(cells),
                bytes: vec![byte; 10 * cells.len()],
            },
        );
    }

    /// A read of whole cells, each of one byte.
    pub fn read(&mut self, open: u64, begin: i64, end: i64, cells: &[(u32, u8)]) {
        let numbers: Vec<u32> = cells.iter().map(|(cell, _)| *cell).collect();
        self.push(
            open,
            begin,
            Some(end),
            What::Read {
                pieces: pieces(&numbers),
                bytes: cells.iter().flat_map(|(_, byte)| [*byte; 10]).collect(),
            },
        );
    }

    pub fn check(&self) -> Report {
        check(&History {
            events: self.0.clone(),
            ..History::default()
        })
    }

    #[track_caller]
    fn is(&self, expected: &[FindingKind]) -> Report {
        let report = self.check();
        let kinds: Vec<FindingKind> = report.findings.iter().map(|found| found.kind).collect();
        assert_eq!(kinds, expected, "{:#?}", report.findings);
        report
    }
}

fn pieces(cells: &[u32]) -> Vec<Piece> {
    let piece = |cell: &u32| Piece {
        cell: *cell,
        offset: 0,
        length: 10,
    };
    cells.iter().map(piece).collect()
}

use FindingKind::{Relied, Violation};

#[test]
fn an_overwritten_value_is_a_violation_where_the_new_one_was_promised() {
    for (policy, expected) in [
        ("posix", &[Violation][..]),
        ("for-1", &[Violation]),
        ("rel-1", &[]),
        ("session", &[]),
        ("nfs", &[]),
    ] {
        let mut story = Story::default();
        story.open(1, "for-1", 0);
        story.write(1, 1, 2, &[0], 1);
        story.push(1, 3, Some(4), What::Close);
        story.open(2, policy, 5);
        story.open(3, "for-1", 5);
        story.write(3, 6, 7, &[0], 2);
        story.read(2, 8, 9, &[(0, 1)]);
        story.is(expected);
    }
}

#[test]
fn what_is_kept_ends_with_a_sync_a_time_or_the_next_open() {
    let begun = |policy: &str| {
        let mut story = Story::default();
        story.open(1, policy, 0);
        story.open(2, "for-1", 0);
        story.write(2, 1, 2, &[0], 1);
        story
    };
    let mut synced = begun("rel-1");
    synced.push(1, 3, Some(4), What::Sync);
    synced.read(1, 5, 6, &[(0, 0)]);
    synced.is(&[Violation]);
    let mut late = begun("nfs");
    late.read(1, 3_001, 3_002, &[(0, 0)]);
    late.is(&[]);
    let mut late = begun("nfs");
    late.read(1, 3_003, 3_004, &[(0, 0)]);
    late.is(&[Violation]);
    let mut closed = begun("session");
    closed.push(2, 3, Some(4), What::Close);
    closed.read(1, 5, 6, &[(0, 0)]);
    closed.open(3, "session", 5);
    closed.read(3, 6, 7, &[(0, 0)]);
    let report = closed.is(&[Violation]);
    let said = &report.findings[0].text;
    assert!(
        said.contains("cell 0, bytes 0..10") && said.contains("open 3, policy session"),
        "{said}"
    );
}

#[test]
fn a_read_that_saw_more_than_it_asked_for_is_told_with_what_it_should_have_asked_for() {
    let mut story = Story::default();
    story.open(1, "session", 0);
    story.open(2, "session", 0);
    story.write(1, 1, 2, &[0], 1);
    story.read(2, 3, 4, &[(0, 1)]);
    story.read(2, 5, 6, &[(0, 1)]);
    let report = story.is(&[Relied, Relied]);
    let first = report.first(Relied).unwrap();
    assert_eq!(first.at, 3 * MS);
    assert!(
        first
            .text
            .ends_with("it is promised by for-1 and for-2, posix, seq-1 and seq-2"),
        "{}",
        first.text
    );
    // One's own writes are promised by every policy.
    let mut own = Story::default();
    own.open(1, "session", 0);
    own.write(1, 1, 2, &[0], 1);
    own.read(1, 3, 4, &[(0, 1)]);
    own.is(&[]);
    // At the same time, under policies without order: by luck.
    let mut race = Story::default();
    race.open(1, "for-1", 0);
    race.open(2, "for-1", 0);
    race.write(1, 1, 4, &[0], 1);
    race.read(2, 2, 3, &[(0, 1)]);
    let report = race.is(&[Relied]);
    assert!(report.findings[0].text.contains("no policy promises it"));
    let mut ordered = Story::default();
    ordered.open(1, "posix", 0);
    ordered.open(2, "posix", 0);
    ordered.write(1, 1, 4, &[0], 1);
    ordered.read(2, 2, 3, &[(0, 1)]);
    ordered.is(&[]);
}

#[test]
fn two_writes_at_once_without_an_order_are_told_when_one_is_read() {
    for (policy, expected) in [("for-1", &[Relied][..]), ("posix", &[])] {
        let mut story = Story::default();
        for open in 1..=3 {
            story.open(open, policy, 0);
        }
        story.write(1, 1, 4, &[0], 1);
        story.write(2, 2, 3, &[0], 2);
        story.read(3, 5, 6, &[(0, 2)]);
        story.is(expected);
    }
}

#[test]
fn half_of_an_atomic_write_is_a_violation() {
    let torn = |policy: &str| {
        let mut story = Story::default();
        story.open(1, policy, 0);
        story.open(2, policy, 0);
        story.write(1, 1, 5, &[0, 1], 1);
        story.read(2, 2, 3, &[(0, 1), (1, 0)]);
        story
    };
    torn("posix").is(&[Violation]);
    torn("for-1").is(&[Relied]);
    // Two reads that see two writes in two orders.
    let mut split = Story::default();
    for open in 1..=4 {
        split.open(open, "posix", 0);
    }
    split.write(1, 1, 9, &[0], 1);
    split.write(2, 1, 9, &[1], 2);
    split.read(3, 2, 8, &[(0, 1), (1, 0)]);
    split.read(4, 2, 8, &[(0, 0), (1, 2)]);
    let report = split.is(&[Violation]);
    assert!(report.findings[0].text.contains("no one order"));
    // A value that comes back.
    let mut back = Story::default();
    for open in 1..=3 {
        back.open(open, "posix", 0);
    }
    back.write(1, 0, 10, &[0], 1);
    back.write(2, 1, 9, &[0], 2);
    back.read(3, 2, 3, &[(0, 2)]);
    back.read(3, 4, 5, &[(0, 1)]);
    back.is(&[]);
    back.read(3, 6, 7, &[(0, 2)]);
    back.is(&[Violation]);
}

#[test]
fn what_a_later_block_reads_was_the_last_of_the_earlier_one() {
    let mut story = Story::default();
    for open in 1..=3 {
        story.open(open, "posix", 0);
    }
    // Two writes at once; a read in between sees the second after the first.
    story.write(1, 0, 10, &[0], 1);
    story.write(2, 1, 9, &[0], 2);
    story.read(3, 2, 3, &[(0, 1)]);
    story.read(3, 4, 5, &[(0, 2)]);
    // Nothing is under way; and the first is back.
    story.read(3, 20, 21, &[(0, 1)]);
    story.is(&[Violation]);
}

#[test]
fn bytes_that_nobody_wrote_are_a_violation_and_changes_that_may_have_happened_none() {
    let mut story = Story::default();
    story.open(1, "for-1", 0);
    story.read(1, 1, 2, &[(0, 9)]);
    story.is(&[Violation]);
    for byte in [0, 7] {
        let mut unknown = Story::default();
        unknown.open(1, "posix", 0);
        unknown.open(2, "posix", 0);
        unknown.push(
            1,
            1,
            None,
            What::Write {
                pieces: pieces(&[0]),
                bytes: vec![7; 10],
            },
        );
        unknown.read(2, 5, 6, &[(0, byte)]);
        unknown.is(&[]);
        unknown.read(2, 7, 8, &[(0, 7 - byte)]);
        let expected: &[_] = if byte == 7 { &[Violation] } else { &[] };
        unknown.is(expected);
    }
    // A file that was there before: its first bytes are not known, but they do not change.
    let mut old = Story::default();
    old.open(1, "for-1", 0);
    if let What::Open { created, .. } = &mut old.0[0].what {
        *created = false;
    }
    old.read(1, 1, 2, &[(0, 9)]);
    old.read(1, 3, 4, &[(0, 9)]);
    old.is(&[]);
    old.read(1, 5, 6, &[(0, 8)]);
    old.is(&[Violation]);
}

#[test]
fn clears_are_writes_of_zeros_and_delayed_writes_are_promised_once_they_have_left() {
    let mut story = Story::default();
    story.open(1, "for-1", 0);
    story.write(1, 1, 2, &[0], 5);
    story.push(
        1,
        3,
        Some(4),
        What::Clear {
            pieces: vec![Piece {
                cell: 0,
                offset: 4,
                length: u64::MAX,
            }],
        },
    );
    story.push(
        1,
        5,
        Some(6),
        What::Read {
            pieces: pieces(&[0]),
            bytes: vec![5, 5, 5, 5, 0, 0, 0, 0, 0, 0],
        },
    );
    story.is(&[]);
    story.read(1, 7, 8, &[(0, 5)]);
    story.is(&[Violation]);
    let mut delayed = Story::default();
    delayed.open(1, "for-1", 0);
    delayed.open(2, "for-1", 0);
    if let What::Open { promise, .. } = &mut delayed.0[0].what {
        promise.delay_ms = 1000;
    }
    delayed.write(1, 1, 2, &[0], 5);
    delayed.read(2, 3, 4, &[(0, 0)]);
    delayed.is(&[]);
    delayed.push(1, 5, Some(6), What::Sync);
    delayed.read(2, 7, 8, &[(0, 0)]);
    delayed.is(&[Violation]);
}

/// Clocks that differ by 10 ms make nobody guilty.
#[test]
fn moments_of_two_machines_are_as_far_apart_as_their_clocks_may_differ() {
    let judge = |story: &Story, skew| {
        let report = check(&History {
            events: story.0.clone(),
            skew: std::time::Duration::from_millis(skew),
            ..History::default()
        });
        report.findings.len()
    };
    // The close comes 4 ms before the open, by different clocks.
    let mut session = Story::default();
    session.open(1, "session", 0);
    session.write(1, 1, 2, &[0], 1);
    session.push(1, 90, Some(96), What::Close);
    session.open(2, "session", 100);
    session.read(2, 200, 201, &[(0, 0)]);
    assert_eq!((judge(&session, 0), judge(&session, 10)), (1, 0));
    // A sync counts for the reads right after it, by the one clock of its client.
    let mut synced = Story::default();
    synced.open(1, "rel-1", 0);
    synced.open(2, "for-1", 0);
    synced.write(2, 50, 60, &[0], 1);
    synced.push(1, 100, Some(101), What::Sync);
    synced.read(1, 102, 103, &[(0, 1)]);
    assert_eq!((judge(&synced, 0), judge(&synced, 10)), (0, 0));
}

#[test]
fn bytes_that_were_there_before_may_be_written_again() {
    let mut story = Story::default();
    story.open(1, "for-1", 0);
    if let What::Open { created, .. } = &mut story.0[0].what {
        *created = false;
    }
    story.read(1, 1, 2, &[(0, 9)]);
    story.write(1, 3, 4, &[0], 9);
    story.read(1, 5, 6, &[(0, 9)]);
    story.is(&[]);
}

#[test]
fn a_delayed_write_takes_effect_when_it_leaves() {
    let mut story = Story::default();
    story.open(1, "for-1", 0);
    story.open(2, "for-1", 0);
    if let What::Open { promise, .. } = &mut story.0[0].what {
        promise.delay_ms = 1000;
    }
    story.write(1, 0, 1, &[0], 5);
    story.write(2, 5, 6, &[0], 6);
    // It has left for this read, after the other one.
    story.read(1, 7, 8, &[(0, 5)]);
    story.push(1, 9, Some(10), What::Sync);
    story.read(2, 11, 12, &[(0, 5)]);
    // Which of the two stays nothing says; but it is no violation.
    story.is(&[Relied, Relied]);
}

/// A session may have kept what it knows of one chunk, and not of the next one.
#[test]
fn bytes_may_be_a_mixture_of_changes_that_are_not_atomic() {
    for (policy, expected) in [("session", &[][..]), ("posix", &[Violation])] {
        let mut story = Story::default();
        for open in 1..=2 {
            story.open(open, policy, 0);
        }
        story.write(1, 1, 2, &[0], 1);
        story.push(
            2,
            3,
            Some(4),
            What::Read {
                pieces: pieces(&[0]),
                bytes: [[0; 5], [1; 5]].concat(),
            },
        );
        story.is(expected);
    }
}

#[test]
fn a_history_survives_its_files_and_the_death_of_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let mut story = Story::default();
    story.open(1, "session", 0);
    story.write(1, 1, 2, &[3], 7);
    story.read(1, 3, 4, &[(3, 7)]);
    story.push(
        1,
        5,
        None,
        What::Clear {
            pieces: pieces(&[1]),
        },
    );
    story.push(1, 6, Some(7), What::Close);
    for host in ["alpha", "alpha", "beta"] {
        let recorder = Recorder::in_folder(folder.path(), host).unwrap();
        for event in &story.0 {
            recorder.note(event.clone()).unwrap();
        }
    }
    let history = History::read(folder.path()).unwrap();
    assert_eq!(history.events.len(), 15);
    assert_eq!(history.skew, std::time::Duration::from_millis(10));
    assert_eq!(
        history.client_of(OpenId(2 << 32 | 1)),
        format!("process {} on beta", std::process::id())
    );
    let of_first: Vec<&Event> = history
        .events
        .iter()
        .filter(|e| e.open.0 >> 32 == 0)
        .collect();
    assert!(of_first.into_iter().eq(story.0.iter()));
    // A client may be killed before its second file is there, or its first line.
    std::fs::write(
        folder.path().join("gamma-1-0.events"),
        "{\"weft_history\":1,\"ho",
    )
    .unwrap();
    assert_eq!(History::read(folder.path()).unwrap().events.len(), 15);
    // The last line of a killed client is not whole.
    let path = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let path = path
        .filter(|path| path.extension().is_some_and(|e| e == "events"))
        .min()
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 9]).unwrap();
    assert_eq!(History::read(folder.path()).unwrap().events.len(), 14);
    std::fs::write(&path, text.replace("\"bytes\":10", "\"bytes\":11")).unwrap();
    let wrong = History::read(folder.path()).unwrap_err().to_string();
    assert!(
        wrong.contains("line 3") && wrong.contains("differ in length"),
        "{wrong}"
    );
    let empty = tempfile::tempdir().unwrap();
    let said = History::read(empty.path()).unwrap_err().to_string();
    assert!(said.contains("WEFT_HISTORY"), "{said}");
}
