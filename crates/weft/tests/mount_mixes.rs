//! Any mix of reads, writes, maps, copies and truncates on one file by programs of one machine
//! gives the same file as on a local file system.
//!
//! `WEFT_CASES` is the number of operations of all workers in each mode, 30,000 by default;
//! `WEFT_SEED` chooses other operations.

mod ends_support;
#[path = "mount_mixes/map.rs"]
mod map;
mod mount_support;
#[path = "mount_mixes/worker.rs"]
mod worker;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use ends_support::Ends;
use map::Map;
use mount_support::Mounted;
use worker::{Mix, PAGE};

const WORKERS: usize = 4;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|n| n.parse().ok())
}

/// Whether threads or processes do the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Threads,
    Processes,
}

/// The environment variable with the work of a process of this test.
const ORDER: &str = "WEFT_TEST_MIX";

/// The worker process of [`By::Processes`]; does nothing otherwise.
#[test]
fn worker_of_another_test() {
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    let (numbers, path) = order.split_once('|').unwrap();
    let numbers: Vec<usize> = numbers.split(' ').map(|n| n.parse().unwrap()).collect();
    let [number, workers, seed, operations, shared, whole] = numbers[..] else {
        panic!("{order}")
    };
    let mix = Mix {
        path: path.into(),
        workers,
        seed: seed as u64,
        operations,
        shared,
        whole,
    };
    mix.work(number);
}

fn run(mix: &Mix, by: By) {
    match by {
        By::Threads => std::thread::scope(|scope| {
            for number in 0..mix.workers {
                scope.spawn(move || mix.work(number));
            }
        }),
        By::Processes => {
            let start = |number| {
                let order = format!(
                    "{number} {} {} {} {} {}|{}",
                    mix.workers,
                    mix.seed,
                    mix.operations,
                    mix.shared,
                    mix.whole,
                    mix.path.display()
                );
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "worker_of_another_test", "--nocapture"])
                    .env(ORDER, order)
                    .spawn()
                    .unwrap()
            };
            let workers: Vec<_> = (0..mix.workers).map(start).collect();
            for mut worker in workers {
                assert!(worker.wait().unwrap().success(), "{mix:?}");
            }
        }
    }
}

/// Runs the same mixes on the mount and on a local file system. `kept`: the descriptor that created
/// the file stays open.
fn mixes(options: &str, (by, kept): (By, bool), share: u64) {
    let Some(m) = Mounted::with_options(options) else {
        return;
    };
    let local = m.beside("local");
    let first = number("WEFT_SEED").unwrap_or(1);
    let all = number("WEFT_CASES").unwrap_or(30_000) / share;
    // Also shorter mixes: small files start out stored with their metadata.
    let each = all.div_ceil(10).min(20_000);
    for seed in first..first + all.div_ceil(each) {
        let (shared, whole) = match seed % 3 {
            0 => (3 * PAGE, 0),
            _ => (8 * PAGE, 64 * PAGE),
        };
        let contents = [&m.path, &local].map(|folder: &std::path::PathBuf| {
            let mix = Mix {
                path: folder.join(format!("file-{seed}")),
                workers: WORKERS,
                seed,
                operations: each as usize / WORKERS,
                shared,
                whole,
            };
            let made = mix.make();
            let made = kept.then_some(made);
            run(&mix, by);
            let content = std::fs::read(&mix.path).unwrap();
            drop(made);
            assert!(std::fs::read(&mix.path).unwrap() == content);
            std::fs::remove_file(&mix.path).unwrap();
            content
        });
        let [here, there] = contents;
        assert_eq!(here.len(), there.len(), "WEFT_SEED={seed}");
        let differs = here.iter().zip(&there).position(|(a, b)| a != b);
        assert_eq!(differs, None, "WEFT_SEED={seed}: the contents differ");
    }
}

#[test]
fn threads_mixing_operations_on_a_file_they_made_match_a_local_file_system() {
    mixes("", (By::Threads, true), 1);
}

#[test]
fn threads_mixing_operations_on_an_existing_file_match_a_local_file_system() {
    mixes("", (By::Threads, false), 1);
}

#[test]
fn processes_mixing_operations_on_a_file_match_a_local_file_system() {
    mixes("", (By::Processes, true), 3);
    mixes("", (By::Processes, false), 3);
}

#[test]
fn threads_mixing_operations_on_a_strict_mount_match_a_local_file_system() {
    mixes("strict", (By::Threads, true), 6);
}

/// As `holetest -f -r -w FILE 16` of xfstests' generic/344 does it.
#[test]
fn bytes_written_beside_a_shared_map_of_the_same_pages_are_kept() {
    const THREADS: usize = 16;
    const LENGTH: usize = 4 << 20;
    let Some(m) = Mounted::new() else {
        return;
    };
    let path = m.file("holetest");
    let mut options = File::options();
    let made = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    made.set_len(LENGTH as u64).unwrap();
    let map = Map::of(&made, LENGTH);
    let mark = |page: usize, thread: usize| ((page * THREADS + thread) as u64 + 1).to_le_bytes();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (map, made) = (&map, &made);
            scope.spawn(move || {
                let pages = LENGTH / PAGE;
                for page in 0..pages {
                    let offset = page * PAGE + thread * 8;
                    if thread.is_multiple_of(2) {
                        map.write(offset, &mark(page, thread));
                    } else {
                        made.write_all_at(&mark(page, thread), offset as u64)
                            .unwrap();
                    }
                }
            });
        }
    });
    let whole = |found: &[u8], how: &str| {
        for page in 0..LENGTH / PAGE {
            for thread in 0..THREADS {
                let at = page * PAGE + thread * 8;
                assert_eq!(
                    found[at..at + 8],
                    mark(page, thread),
                    "{how}: {page}, {thread}"
                );
            }
        }
    };
    whole(&map.read(0, LENGTH), "through the map");
    whole(&read(&path), "by another descriptor");
    drop((map, made));
    let other = m.further("other", "");
    whole(&read(&other.join("holetest")), "by another mount");
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// The kernel drops a file's pages when the file is opened, also while a write that is in a page is
/// on its way to the mount. A map that then reads the page again must not read it from before the
/// write.
#[test]
fn a_page_that_is_read_again_during_a_write_shows_the_write() {
    const WRITES: u64 = 200_000;
    let Some(m) = Mounted::new() else {
        return;
    };
    let path = m.file("dropped");
    std::fs::write(&path, vec![0; 2 * PAGE]).unwrap();
    let writer = File::options().read(true).write(true).open(&path).unwrap();
    let map = Map::of(&writer, 2 * PAGE);
    let done = std::sync::atomic::AtomicBool::new(false);
    let is_done = || done.load(std::sync::atomic::Ordering::Relaxed);
    let stale = std::thread::scope(|scope| {
        let _ends = Ends(&done);
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done() {
                    drop(File::open(&path).unwrap());
                }
            });
            scope.spawn(|| {
                while !is_done() {
                    map.read(PAGE / 2, 8);
                }
            });
            // Threads of the mount lose their processor in the middle of a request.
            scope.spawn(|| while !is_done() {});
        }
        let mut stale = 0;
        let mut found = [0; 8];
        for n in 1..=WRITES {
            writer.write_all_at(&n.to_le_bytes(), 8).unwrap();
            writer.read_exact_at(&mut found, 8).unwrap();
            stale += u64::from(found != n.to_le_bytes());
        }
        stale
    });
    assert_eq!(stale, 0, "of {WRITES} writes that were read back");
}
