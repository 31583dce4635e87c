//! Golden bytes, which `docs/format.md` shows, and decoders that survive any bytes.

use bytes::Bytes;
use proptest::prelude::*;
use weft_layout::{CellIndex, CellOffset, FileId};

use super::ranges::Ranges;
use super::*;
use crate::key::{ADDRESSED, ForkKey, ForkName, Run};

/// The document that explains the bytes; it must contain every golden line.
const FORMAT: &str = include_str!("../../../../docs/format.md");

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let words: Vec<String> = digits.chunks(4).map(<[String]>::concat).collect();
    words.join(" ")
}

fn golden(name: &str, bytes: &[u8]) {
    let line = format!("{name}: {}", hex(bytes));
    assert!(
        FORMAT.lines().any(|l| l == line),
        "docs/format.md lacks this line:\n{line}"
    );
}

fn key() -> ForkKey {
    ForkKey {
        file: FileId(7),
        cell: CellIndex(3),
        fork: ForkName::data(),
    }
}

fn runs() -> RunsRecord {
    let run = |first, blocks, place| RunRecord {
        first,
        blocks,
        place: Place(place),
        inherited: false,
    };
    RunsRecord {
        runs: vec![run(0, 2, 100), run(5, 1, 9)],
        crcs: vec![0x1111_1111, 0x2222_2222, 0x3333_3333],
    }
}

fn touched() -> TouchedRecord {
    let other = ForkKey {
        file: FileId(700),
        cell: CellIndex(0),
        fork: ForkName::new("x").unwrap(),
    };
    TouchedRecord {
        from: 9,
        any: false,
        forks: vec![(key(), 300_000), (other, 0)],
    }
}

#[allow(clippy::too_many_lines)] // a table
fn items() -> Vec<(&'static str, ItemRecord)> {
    let id = ForkId(2);
    vec![
        (
            "Fork",
            ItemRecord::Fork {
                id,
                chunk: 65536,
                key: key(),
            },
        ),
        (
            "Data",
            ItemRecord::Data {
                id,
                offset: 10,
                data: Bytes::from_static(b"weft"),
            },
        ),
        (
            "Map",
            ItemRecord::Map {
                id,
                chunk: 4,
                as_of: 8,
                end: 300_000,
                runs: runs(),
            },
        ),
        ("Truncate", ItemRecord::Truncate { id, length: 5 }),
        (
            "Operation",
            ItemRecord::Operation {
                file: FileId(7),
                op: 6,
            },
        ),
        ("Remove", ItemRecord::Remove { id }),
        ("Delete", ItemRecord::Delete { file: FileId(7) }),
        ("Synced", ItemRecord::Synced { through: 11 }),
        (
            "Clear",
            ItemRecord::Clear {
                id,
                offset: 10,
                length: 8192,
            },
        ),
        (
            "Checkpoint",
            ItemRecord::Checkpoint {
                file: FileId(7),
                number: 6,
            },
        ),
        ("Keep", ItemRecord::Keep { id, number: 6 }),
        (
            "Derive",
            ItemRecord::Derive {
                id: ForkId(3),
                parent: id,
                chunk: 65536,
                length: 300_000,
                modified: 1,
                key: key(),
            },
        ),
        (
            "Forget",
            ItemRecord::Forget {
                file: FileId(7),
                number: 6,
            },
        ),
        (
            "Adopt",
            ItemRecord::Adopt {
                from: id,
                to: ForkId(3),
                chunk: 4,
            },
        ),
        (
            "Merged",
            ItemRecord::Merged {
                from: id,
                to: ForkId(3),
            },
        ),
        ("Own", ItemRecord::Own { id, chunk: 4 }),
        (
            "Pieces",
            ItemRecord::Pieces {
                id,
                runs: vec![
                    Run {
                        offset: CellOffset(10),
                        at: 0,
                        length: 1,
                        count: 3,
                        stride: 64,
                    },
                    Run::one(5, 3, 1),
                ],
                data: Bytes::from_static(b"weft"),
            },
        ),
        ("Cut", ItemRecord::Cut { id, length: 5 }),
        ("Empty", ItemRecord::Empty { id, from: 4, to: 9 }),
        ("Touched", ItemRecord::Touched(touched())),
        (
            "Doubt",
            ItemRecord::Doubt {
                id,
                chunk: 65536,
                key: key(),
                end: 300_000,
                length: 5,
            },
        ),
        ("DoubtAll", ItemRecord::DoubtAll { below: ADDRESSED }),
        ("DoubtOlder", ItemRecord::DoubtAll { below: FileId(7) }),
        (
            "Trust",
            ItemRecord::Trust {
                file: Some(FileId(7)),
            },
        ),
    ]
}

#[test]
fn checksums_are_crc_32c() {
    assert_eq!(checksum(b"123456789"), 0xe306_9283);
}

#[test]
fn items_have_their_golden_bytes_and_round_trip() {
    for (name, item) in items() {
        let mut body = new_body(1);
        let front = body.len();
        item.encode(&mut body);
        golden(name, &body[front..]);
        assert_eq!(decode_body(&Bytes::from(body)), Some((1, vec![item])));
    }
}

#[test]
fn a_frame_has_its_golden_bytes_and_round_trips() {
    let mut body = new_body(1);
    ItemRecord::Remove { id: ForkId(2) }.encode(&mut body);
    let mut frame = Vec::new();
    FrameRecord::append(&mut frame, 9, false, &body);
    golden("Frame", &frame);
    let Header::Good(header) = FrameRecord::decode(&frame) else {
        panic!("not a frame")
    };
    assert_eq!(
        (header.sequence, header.body as usize, header.synced),
        (9, body.len(), false)
    );
    assert_eq!(header.stride() as usize, frame.len());
    assert!(header.is_end(&frame[FRAME_BYTES + body.len()..]));
    assert!(!header.is_end(&[0; 7]));

    let mut old = frame;
    let front = FRAME_BYTES - 4;
    old[3] = 1;
    let sum = checksum(&old[..front]).to_le_bytes();
    old[front..FRAME_BYTES].copy_from_slice(&sum);
    *old.last_mut().unwrap() = 0;
    golden("Frame of version 1", &old);
    let Header::Good(header) = FrameRecord::decode(&old) else {
        panic!("not a frame")
    };
    assert_eq!(header.stride() as usize, old.len());
    assert!(header.is_end(&old[FRAME_BYTES + body.len()..]));
    old[3] = 3;
    let sum = checksum(&old[..front]).to_le_bytes();
    old[front..FRAME_BYTES].copy_from_slice(&sum);
    assert_eq!(FrameRecord::decode(&old), Header::Version(3));
}

#[test]
fn doubt_records_have_their_golden_bytes_and_round_trip() {
    let doubt = Ranges::new(vec![1..5, 9..u64::MAX]).unwrap();
    let doubted = DoubtRecord::key(ForkId(2));
    golden("doubt key", &doubted);
    golden("doubt value", &DoubtRecord::encode(&doubt));
    assert_eq!(DoubtRecord::decode_key(&doubted), Some(ForkId(2)));
    let decoded = DoubtRecord::decode(b"", &DoubtRecord::encode(&doubt));
    assert_eq!(decoded, Ok(doubt));
    let trusted = VerifiedFileRecord::key(FileId(7));
    golden("trust key", &trusted);
    golden("trust value", &VerifiedFileRecord::encode());
    assert_eq!(VerifiedFileRecord::decode_key(&trusted), Some(FileId(7)));
    assert_eq!(
        VerifiedFileRecord::decode(b"", &VerifiedFileRecord::encode()),
        Ok(())
    );
    for (name, below) in [("all absent", ADDRESSED), ("absent before", FileId(7))] {
        let value = MissingForksRecord::encode(below);
        golden(name, &value);
        assert_eq!(MissingForksRecord::decode(&value), Ok(below));
    }
}

#[test]
fn index_keys_and_values_have_their_golden_bytes_and_round_trip() {
    let file = FileRecord {
        deleted: true,
        op: 6,
    };
    golden("file key", &FileRecord::key(FileId(7)));
    golden("file value", &file.encode());
    assert_eq!(FileRecord::decode(b"", &file.encode()), Ok(file));
    let fork = ForkRecord {
        id: ForkId(2),
        chunk: 65536,
        length: 300_000,
        modified: 1,
        blocks: 3,
        parent: None,
        inherit: 0,
        checkpoint: 0,
    };
    golden("fork key", &ForkRecord::key(&key()));
    golden("fork value", &fork.encode());
    assert_eq!(ForkRecord::decode(b"", &fork.encode()), Ok(fork));
    assert_eq!(
        ForkRecord::decode_key(&ForkRecord::key(&key())),
        Ok(ForkEntry::Live(key()))
    );
    let derived = ForkRecord {
        parent: Some(ForkId(0)),
        inherit: 5,
        checkpoint: 6,
        ..fork
    };
    let kept = ForkRecord::checkpoint_fork_key(&key(), ForkId(2));
    golden("kept fork key", &kept);
    golden("derived fork value", &derived.encode());
    assert_eq!(ForkRecord::decode(b"", &derived.encode()), Ok(derived));
    assert_eq!(
        ForkRecord::decode_key(&kept),
        Ok(ForkEntry::Checkpoint(key(), ForkId(2)))
    );
    let checkpoint = CheckpointRecord { made: 1 };
    golden("checkpoint key", &CheckpointRecord::key(FileId(7), 6));
    golden("checkpoint value", &checkpoint.encode());
    assert_eq!(
        CheckpointRecord::decode(b"", &checkpoint.encode()),
        Ok(checkpoint)
    );
    assert_eq!(
        CheckpointRecord::decode_key(&CheckpointRecord::key(FileId(7), 6)),
        Some((FileId(7), 6))
    );
    let mut inherited = runs();
    inherited.runs[1].inherited = true;
    golden("inheriting chunk value", &ChunkRecord::encode(&inherited));
    assert_eq!(
        ChunkRecord::decode(b"", &ChunkRecord::encode(&inherited)),
        Ok(inherited)
    );
    golden("chunk key", &ChunkRecord::key(ForkId(2), 4));
    golden("chunk value", &ChunkRecord::encode(&runs()));
    assert_eq!(
        ChunkRecord::decode(b"", &ChunkRecord::encode(&runs())),
        Ok(runs())
    );
    assert_eq!(
        ChunkRecord::decode_key(&ChunkRecord::key(ForkId(2), 4)),
        Ok((ForkId(2), 4))
    );
    let label = LabelRecord {
        number: 3,
        owner: "server-2 of volume 07".into(),
    };
    golden("label", &label.encode());
    assert_eq!(LabelRecord::decode(&label.encode()), Ok(label));
    let disk = DiskRecord {
        path: "/mnt/b".into(),
    };
    golden("disk key", &DiskRecord::key(3));
    golden("disk value", &disk.encode());
    assert_eq!(DiskRecord::decode_key(&DiskRecord::key(3)), Some(3));
    assert_eq!(DiskRecord::decode(b"", &disk.encode()), Ok(disk));
    let several = StoreRecord {
        next_fork: 3,
        applied: 8,
        several: true,
    };
    golden("store value of several disks", &several.encode());
    assert_eq!(StoreRecord::decode(&several.encode()), Ok(several));
    let store = StoreRecord {
        several: false,
        next_fork: 3,
        applied: 8,
    };
    golden("store value", &store.encode());
    assert_eq!(StoreRecord::decode(&store.encode()), Ok(store));
}

#[test]
fn files_beside_the_log_have_their_golden_bytes_and_round_trip() {
    let reached = LogWatermark {
        synced: 8,
        given: 11,
    };
    golden("reached", &reached.encode());
    assert_eq!(LogWatermark::decode(&reached.encode()), Some(reached));
    let mut history = weft_kv::History::default();
    history.begin(7, 3, 5);
    let history = HistoryRecord {
        turn: 2,
        history: history.encode(),
    };
    golden("incarnations", &history.encode());
    let mut padded = history.encode();
    padded.resize(4096, 0);
    assert_eq!(HistoryRecord::decode(&padded), Some(history));
    let heard = ServicePositionRecord(weft_kv::Position {
        incarnation: 7,
        sequence: 300,
    });
    golden("service", &heard.encode());
    assert_eq!(ServicePositionRecord::decode(&heard.encode()), Some(heard));
    golden("running", &RunningRecord::encode("boot"));
    assert_eq!(
        RunningRecord::decode(&RunningRecord::encode("boot")),
        Some("boot".into())
    );
}

proptest! {
    #[test]
    fn decoders_survive_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = FrameRecord::decode(&bytes);
        let _ = decode_body(&Bytes::from(bytes.clone()));
        let _ = FileRecord::decode(b"k", &bytes);
        let _ = ForkRecord::decode(b"k", &bytes);
        let _ = ForkRecord::decode_key(&bytes);
        let _ = CheckpointRecord::decode(b"k", &bytes);
        let _ = CheckpointRecord::decode_key(&bytes);
        let _ = ChunkRecord::decode(b"k", &bytes);
        let _ = ChunkRecord::decode_key(&bytes);
        let _ = StoreRecord::decode(&bytes);
        let _ = RunningRecord::decode(&bytes);
        let _ = LogWatermark::decode(&bytes);
        let _ = HistoryRecord::decode(&bytes);
        let _ = ServicePositionRecord::decode(&bytes);
    }

    #[test]
    fn decoders_survive_changed_records(at in 0_usize..400, bit in 0_u8..8, cut in 0_usize..400) {
        for (_, item) in items() {
            let mut body = new_body(1);
            item.encode(&mut body);
            let place = at % body.len();
            body[place] ^= 1 << bit;
            body.truncate(cut.max(1));
            let _ = decode_body(&Bytes::from(body));
        }
        let mut value = ChunkRecord::encode(&runs());
        let place = at % value.len();
        value[place] ^= 1 << bit;
        prop_assert!(ChunkRecord::decode(b"k", &value).is_err());
    }
}
