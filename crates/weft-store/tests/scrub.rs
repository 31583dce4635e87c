//! The scrub: it finds exactly the damaged blocks, no damage stops it, and it continues where it
//! stopped.
#![allow(missing_docs)]

use crate::common;

use bytes::Bytes;
use common::{Machine, key, now, pattern, read, run, write};
use weft_layout::FileId;
use weft_store::{
    ADDRESSED, ChunkName, Fault, Finding, ForkKey, ForkName, ScrubPosition, Store, StoreError,
};

const CHUNK: u32 = 16384;

/// Three files of ten chunks, consecutive on the disk, in the index and not in the cache.
async fn filled(machine: &Machine) -> Store {
    let store = machine.open().await.unwrap();
    for file in 1..4 {
        let all = vec![write(&key(file, 0), CHUNK, 0, pattern(file, 160 << 10))];
        store.write(all, now()).await.unwrap();
    }
    store.apply().await.unwrap();
    store.drop_cache();
    store
}

/// A whole pass in steps; returns the findings, the bytes read and the number of steps.
async fn pass(store: &Store, step: u64) -> (Vec<Finding>, u64, u64) {
    store.scrub_begin().await.unwrap();
    let (mut findings, mut bytes, mut steps) = (Vec::new(), 0, 0);
    let mut at = Some(ScrubPosition::default());
    while let Some(from) = at {
        let done = store.scrub(&from, step).await.unwrap();
        findings.extend(done.findings);
        (bytes, steps) = (bytes + done.bytes, steps + 1);
        at = done.next;
    }
    (findings, bytes, steps)
}

/// The bad blocks of a file, as the errors of reads name them: chunk, block of the chunk, block of
/// the disk.
async fn bad_blocks(store: &Store, file: u64) -> Vec<(u64, u32, u64)> {
    let mut bad = Vec::new();
    for block in 0..40 {
        match read(store, &key(file, 0), block * 4096, 4096).await {
            Ok(_) => {}
            Err(StoreError::BadChecksum {
                chunk, at, block, ..
            }) => bad.push((chunk, at, block)),
            Err(error) => panic!("{error}"),
        }
    }
    bad
}

#[test]
fn a_scrub_finds_exactly_the_damaged_blocks_and_reads_report_the_same() {
    run(async {
        let machine = Machine::new(1);
        let store = filled(&machine).await;
        assert_eq!(pass(&store, 1 << 20).await, (vec![], 3 * (160 << 10), 1));
        // Blocks 3, 4 (two chunks), 50, 51 (one chunk), and one that nothing refers to.
        assert!(machine.disk.damage("data", |bytes| {
            for block in [3, 4, 50, 51, 130] {
                bytes[block * 4096 + 77] ^= 4;
            }
        }));
        store.drop_cache();
        for step in [1, 4096, 40_000, 1 << 20] {
            let (findings, bytes, steps) = pass(&store, step).await;
            assert_eq!(bytes, 3 * (160 << 10));
            assert!(steps > 1 || step == 1 << 20);
            assert!(findings.iter().all(|f| f.fault == Fault::Checksum));
            let found: Vec<_> = findings
                .iter()
                .map(|f| (f.key.file.0, f.chunk, f.blocks.clone(), f.place))
                .collect();
            assert_eq!(found, [(1, 0, 3..4, 3), (1, 1, 0..1, 4), (2, 2, 2..4, 50)]);
        }
        assert_eq!(bad_blocks(&store, 1).await, [(0, 3, 3), (1, 0, 4)]);
        assert_eq!(bad_blocks(&store, 2).await, [(2, 2, 50), (2, 3, 51)]);
        assert_eq!(bad_blocks(&store, 3).await, []);
        assert_eq!(store.counters().scrub_bad_blocks, 4 * 4);
        // Rewritten blocks are good; a deleted file has no bad blocks.
        let all = vec![write(&key(1, 0), CHUNK, 0, pattern(9, 160 << 10))];
        store.write(all, now()).await.unwrap();
        store.delete_file(FileId(2)).await.unwrap();
        assert_eq!(pass(&store, 1 << 20).await.0, []);
    });
}

#[test]
fn an_unreadable_block_is_a_finding_and_its_neighbours_are_not() {
    run(async {
        let machine = Machine::new(2);
        let store = filled(&machine).await;
        // The last chunk has blocks 116..120: its read fails, but two of its blocks can be read.
        let cut = |bytes: &mut Vec<u8>| bytes.truncate(118 * 4096);
        assert!(machine.disk.damage("data", cut));
        let (findings, _, _) = pass(&store, 1 << 20).await;
        let [finding] = &findings[..] else {
            panic!("{findings:?}")
        };
        assert_eq!((finding.key.file, finding.chunk), (FileId(3), 9));
        assert_eq!((finding.blocks.clone(), finding.place), (2..4, 118));
        let Fault::Unreadable { reason } = &finding.fault else {
            panic!("{finding:?}")
        };
        assert!(reason.contains("end of file"), "{reason}");
        assert_eq!(finding.disk, 0);
    });
}

#[test]
fn a_damaged_entry_is_a_finding_and_the_pass_continues() {
    run(async {
        let machine = Machine::new(3);
        let store = filled(&machine).await;
        assert!(machine.index.damage("chunks", |value| value[9] ^= 1));
        let (findings, bytes, _) = pass(&store, 4096).await;
        let [finding] = &findings[..] else {
            panic!("{findings:?}")
        };
        assert_eq!((finding.key.file, finding.chunk), (FileId(1), 0));
        assert!(matches!(finding.fault, Fault::Entry { .. }), "{finding:?}");
        assert_eq!(bytes, 3 * (160 << 10) - u64::from(CHUNK));
    });
}

#[test]
fn files_that_change_during_a_pass_are_never_found_bad() {
    run(async {
        for seed in 0..20 {
            let machine = Machine::new(seed);
            let store = filled(&machine).await;
            let change = async {
                for n in 0..40 {
                    let all = vec![write(
                        &key(1 + n % 3, 0),
                        CHUNK,
                        (n * 7919) % 120_000,
                        pattern(n, 40_000),
                    )];
                    store.write(all, now()).await.unwrap();
                    match n % 8 {
                        0 => store.apply().await.unwrap(),
                        1..4 => store.sync().await.unwrap(),
                        _ => store.drop_cache(),
                    }
                }
            };
            let scrub = async {
                for _ in 0..3 {
                    assert_eq!(pass(&store, 8192).await.0, [], "seed {seed}");
                }
            };
            tokio::join!(change, scrub);
        }
    });
}

#[test]
fn a_scrub_moves_the_index_off_its_journal_and_releases_the_log() {
    run(async {
        let machine = Machine::new(3);
        let store = filled(&machine).await;
        let segments = |machine: &Machine| {
            let names = machine.disk.names().into_iter();
            let logs = names.filter(|name| name.starts_with("log."));
            logs.filter(|name| {
                machine
                    .disk
                    .bytes(name)
                    .is_some_and(|bytes| bytes.iter().any(|b| *b != 0))
            })
            .collect::<Vec<_>>()
        };
        // The retained segment: the index has its contents only in the journal.
        let before = segments(&machine);
        let [segment] = &before[..] else {
            panic!("{before:?}")
        };
        assert!(machine.disk.damage(segment, |bytes| bytes[40] ^= 1));
        assert_eq!(pass(&store, 1 << 20).await.0, []);
        assert_eq!(segments(&machine), Vec::<String>::new());
        drop(store);
        machine.kill(1);
        machine.index.lose_journal(0);
        let store = machine.open().await.unwrap();
        for file in 1..4 {
            let found = read(&store, &key(file, 0), 0, 160 << 10).await.unwrap();
            assert!(found == pattern(file, 160 << 10), "file {file}");
        }
    });
}

/// A chunk with sound blocks and other contents than its name says, as a fault of the software
/// would leave it.
#[test]
fn a_scrub_compares_addressed_chunks_with_their_names() {
    run(async {
        let machine = Machine::new(1);
        let store = machine.open().await.unwrap();
        let mut sparse = pattern(5, 40_000);
        sparse[8192..16384].fill(0);
        for data in [pattern(3, 100), pattern(4, 65_536), sparse] {
            let data = Bytes::from(data);
            let name = ChunkName::of(&data);
            store.put_chunk(&name, data, now()).await.unwrap();
        }
        assert_eq!(pass(&store, 1 << 20).await.0, vec![]);
        let other = ChunkName::of(b"other contents");
        let place = ForkKey {
            file: ADDRESSED,
            cell: weft_layout::CellIndex(0),
            fork: ForkName::new(&other.to_string()).unwrap(),
        };
        let wrong = write(&place, CHUNK, 0, pattern(6, 5000));
        store.write(vec![wrong], now()).await.unwrap();
        let findings = pass(&store, 1 << 20).await.0;
        let found: Vec<_> = findings.into_iter().map(|f| (f.key, f.fault)).collect();
        assert_eq!(found, vec![(place, Fault::Name)]);
        // The next write of these contents stores them.
        let data = Bytes::from_static(b"other contents");
        assert!(store.put_chunk(&other, data.clone(), now()).await.unwrap());
        assert_eq!(pass(&store, 1 << 20).await.0, vec![]);
        let stored = store.get_chunk(&other).await.unwrap().unwrap();
        assert_eq!(stored.concat(), data);
    });
}
