//! Large directories, listed while names come and go.
//!
//! `WEFT_CASES` is how many thousand names that stay: 20 in every run, 1,000 where there is time for it.

mod mount_support;

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mount_support::Mounted;

/// One name in so many is a directory.
const DIRECTORIES: u32 = 40;

fn thousands() -> u32 {
    let asked = std::env::var("WEFT_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    asked.unwrap_or(20)
}

/// Most are links, which cost least to make; some are files and some directories. Through both mounts: the kernel lets
/// one at a time into a directory.
fn make(mounts: [&Path; 2], count: u32) {
    File::create(mounts[0].join("first")).unwrap();
    let part = |directory: &Path, start: u32| {
        let directory = directory.to_owned();
        std::thread::spawn(move || {
            let mut source = directory.join("first");
            for number in (start..count).step_by(2) {
                let name = directory.join(format!("stays-{number}"));
                if number % DIRECTORIES == 0 {
                    fs::create_dir(name).unwrap();
                } else if number % DIRECTORIES <= 2 {
                    File::create(&name).unwrap();
                    source = name;
                } else {
                    fs::hard_link(&source, name).unwrap();
                }
            }
        })
    };
    for maker in [part(mounts[0], 0), part(mounts[1], 1)] {
        maker.join().unwrap();
    }
}

/// Makes, renames and removes names all over the directory until it is told to stop; how many.
fn churn(directory: &Path, stop: &AtomicBool) -> u32 {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        // Names of others lie between those that stay.
        let name = |n: u32| {
            directory.join(format!(
                "stays-{}x",
                u64::from(n).wrapping_mul(7_919) % 100_000
            ))
        };
        File::create(name(number)).unwrap();
        fs::rename(name(number), directory.join(format!("comes-{number}"))).unwrap();
        if number >= 50 {
            fs::remove_file(directory.join(format!("comes-{}", number - 50))).unwrap();
        }
        number += 1;
    }
    number
}

fn list(directory: &Path, count: u32) {
    let mut seen: HashMap<String, u32> = HashMap::with_capacity(count as usize);
    for entry in fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        *seen.entry(name).or_default() += 1;
    }
    for number in 0..count {
        let name = format!("stays-{number}");
        assert_eq!(seen.get(&name), Some(&1), "{name} among {}", seen.len());
    }
    let twice: Vec<_> = seen
        .iter()
        .filter(|(_, times)| **times > 1)
        .take(5)
        .collect();
    // What came, went and came back under the same name may be seen as often as it came; these do not.
    assert!(
        twice.iter().all(|(name, _)| name.ends_with('x')),
        "{twice:?}"
    );
}

/// Bytes that a process has in memory.
fn memory(pid: i32) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn who_stays_is_listed_exactly_once_while_others_come_and_go() {
    let Some(m) = Mounted::new() else { return };
    let count = thousands() * 1000;
    let directory = m.file("d");
    fs::create_dir(&directory).unwrap();
    let start = Instant::now();
    let there = m.further("other", "").join("d");
    make([&directory, &there], count);
    println!("{count} names made in {:?}", start.elapsed());
    let memory_of_all = || {
        let nodes: Vec<_> = m.nodes().into_iter().map(|pid| memory(pid) >> 20).collect();
        format!(
            "mount {} MiB, nodes {nodes:?} MiB",
            memory(m.process()) >> 20
        )
    };
    println!("made: {}", memory_of_all());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let here = scope.spawn(|| churn(&directory, &stop));
        let (start, mut rounds) = (Instant::now(), 0);
        while rounds < 3 || (rounds < 6 && start.elapsed() < Duration::from_secs(1)) {
            let start = Instant::now();
            list([&directory, &there][rounds % 2], count);
            println!("listed in {:?}: {}", start.elapsed(), memory_of_all());
            rounds += 1;
        }
        stop.store(true, Ordering::Relaxed);
        println!("{} came and went", here.join().unwrap());
    });
    assert_eq!(
        fs::metadata(&directory).unwrap().nlink(),
        u64::from(count / DIRECTORIES + 2)
    );
}
