//! Large directories, listed while names come and go.
//!
//! `WEFT_CASES` is the number of names that stay, in thousands: 20 by default, 1,000 in long runs.

mod ends_support;
mod mount_support;

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ends_support::Ends;
use mount_support::Mounted;
use rustix::fs::{RawDir, SeekFrom, seek};

/// One in this many names is a directory.
const DIRECTORIES: u32 = 40;

fn thousands() -> u32 {
    let asked = std::env::var("WEFT_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    asked.unwrap_or(20)
}

/// Makes names through both mounts, because the kernel admits one process at a time to a directory.
/// Most are links, which are the cheapest; some are files and some directories.
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

/// Creates, renames and removes names all over the directory until `stop` is set. Returns how many.
fn churn(directory: &Path, stop: &AtomicBool) -> u32 {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        // These names sort between those that stay.
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
    // A name that was removed and created again may be listed twice. Names that stay may not.
    assert!(
        twice.iter().all(|(name, _)| name.ends_with('x')),
        "{twice:?}"
    );
}

/// The names from the current position of the directory on, each with the position after it.
fn rest(directory: &File) -> Vec<(String, u64)> {
    let mut buffer = Vec::with_capacity(8 << 10);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_str().unwrap().to_owned();
        names.push((name, entry.next_entry_cookie()));
    }
    names
}

/// Seeks back in a listing, while names that it has seen go and others come.
fn seek_back(directory: &Path, count: u32) {
    // These names sort after the name that they begin with.
    let passing = |n: u32, end: &str| directory.join(format!("stays-{n}{end}"));
    let all = || (0..count).step_by(7);
    all().for_each(|n| drop(File::create(passing(n, "x")).unwrap()));
    let open = File::open(directory).unwrap();
    let listed = rest(&open);
    let stays = |names: &[(String, u64)]| -> Vec<String> {
        let mut stays: Vec<String> = names.iter().map(|(name, _)| name.clone()).collect();
        stays.retain(|name| {
            name.strip_prefix("stays-")
                .is_some_and(|n| n.parse::<u32>().is_ok())
        });
        stays.sort_unstable();
        stays
    };
    assert_eq!(stays(&listed).len(), count as usize);
    for n in all() {
        fs::remove_file(passing(n, "x")).unwrap();
        if n % 2 == 0 {
            File::create(passing(n, "y")).unwrap();
        }
    }
    // Seek to `back` names before the end, or to the start: the listing must continue as the first
    // one did.
    for back in [10, 5_000, 15_000, listed.len() - 10] {
        let at = listed.len().saturating_sub(back);
        let (before, behind) = listed.split_at(at);
        seek(&open, SeekFrom::Start(before.last().unwrap().1)).unwrap();
        let seen = rest(&open);
        assert!(
            stays(&seen) == stays(behind),
            "{back} names back: {} and {}",
            seen.len(),
            stays(behind).len()
        );
        let gone = seen.iter().find(|(name, _)| name.ends_with('x'));
        assert_eq!(gone, None, "{back} names back");
    }
    // From its start, the listing shows the current names.
    seek(&open, SeekFrom::Start(0)).unwrap();
    let names = rest(&open);
    assert_eq!(stays(&names).len(), count as usize);
    assert!(!names.iter().any(|(name, _)| name.ends_with('x')));
    let came = names.iter().filter(|(name, _)| name.ends_with('y')).count();
    assert_eq!(came, all().filter(|n| n % 2 == 0).count());
    // Positions from before the seek to the start remain valid.
    for at in [1, listed.len() / 3, listed.len() - 2] {
        seek(&open, SeekFrom::Start(listed[at].1)).unwrap();
        assert!(
            stays(&rest(&open)) == stays(&listed[at + 1..]),
            "after position {at}"
        );
    }
}

#[test]
fn every_position_of_a_directory_can_be_sought_in_any_order() {
    let Some(m) = Mounted::new() else { return };
    let directory = m.file("d");
    fs::create_dir(&directory).unwrap();
    for number in 0..4000_u32 {
        let name = format!("{:08x}", number.wrapping_mul(2_654_435_761));
        File::create(directory.join(name)).unwrap();
    }
    let open = File::open(&directory).unwrap();
    let mut places = vec![0];
    let all = rest(&open);
    places.extend(all.iter().map(|(_, behind)| *behind));
    let mut at = 7;
    for _ in 0..all.len() {
        at = (at * 5 + 11) % all.len();
        seek(&open, SeekFrom::Start(places[at])).unwrap();
        let mut buffer = Vec::with_capacity(8 << 10);
        let mut entries = RawDir::new(&open, buffer.spare_capacity_mut());
        let entry = entries.next().unwrap().unwrap();
        assert_eq!(entry.file_name().to_str().unwrap(), all[at].0);
    }
    // Positions of no name miss none; the last possible one is the end.
    for place in [1 << 20, 1 << 40] {
        seek(&open, SeekFrom::Start(place)).unwrap();
        assert_eq!(rest(&open).len(), 4000);
    }
    seek(&open, SeekFrom::Start(i64::MAX as u64)).unwrap();
    assert_eq!(rest(&open), []);
}

/// Bytes that a process has in memory.
fn memory(pid: i32) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn an_open_removed_file_keeps_its_attributes() {
    removed_while_open("");
}

#[test]
fn an_open_removed_file_keeps_its_attributes_on_strict_mounts() {
    removed_while_open("strict");
}

/// The directory is removed by its own mount, and by another one.
fn removed_while_open(options: &str) {
    let Some(m) = Mounted::with_options(options) else {
        return;
    };
    let there = m.further("other", "");
    for by in [&m.path, &there] {
        let (directory, fifo) = (m.file("d"), m.file("fifo"));
        fs::create_dir(&directory).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o640);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let open = File::open(&directory).unwrap();
        let reader = File::options().read(true).write(true).open(&fifo).unwrap();
        // Change the attributes after the first lookup.
        for file in [&open, &reader] {
            file.set_permissions(fs::Permissions::from_mode(0o710))
                .unwrap();
            fchown(file, Some(7), Some(8)).unwrap();
        }
        let before = [&open, &reader].map(|file| file.metadata().unwrap());
        fs::remove_dir(by.join("d")).unwrap();
        fs::remove_file(by.join("fifo")).unwrap();
        let gone = |path: &Path| fs::symlink_metadata(path).is_err();
        let deadline = Instant::now() + Duration::from_secs(10);
        while !gone(&directory) || !gone(&fifo) {
            assert!(Instant::now() < deadline, "the names are still visible");
        }
        for (file, before) in [&open, &reader].into_iter().zip(before) {
            let after = match file.metadata() {
                Err(error) if by == &there => {
                    assert_eq!(
                        error.raw_os_error(),
                        Some(rustix::io::Errno::STALE.raw_os_error())
                    );
                    continue;
                }
                after => after.unwrap(),
            };
            assert_eq!(after.nlink(), 0);
            assert_eq!(
                (after.ino(), after.mode(), after.uid(), after.gid()),
                (before.ino(), before.mode(), 7, 8)
            );
        }
        let mut buffer = Vec::with_capacity(4096);
        let mut listing = RawDir::new(&open, buffer.spare_capacity_mut());
        let listed = listing.next().unwrap().map(drop);
        assert_eq!(listed, Err(rustix::io::Errno::NOENT));
        let inside = rustix::fs::mkdirat(&open, "inside", mode);
        assert!(
            [Err(rustix::io::Errno::NOENT), Err(rustix::io::Errno::STALE)].contains(&inside),
            "{inside:?}"
        );
    }
}

#[test]
fn names_that_stay_are_listed_exactly_once_while_others_change() {
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
        let ends = Ends(&stop);
        let here = scope.spawn(|| churn(&directory, &stop));
        let (start, mut rounds) = (Instant::now(), 0);
        while rounds < 3 || (rounds < 6 && start.elapsed() < Duration::from_secs(1)) {
            let start = Instant::now();
            list([&directory, &there][rounds % 2], count);
            println!("listed in {:?}: {}", start.elapsed(), memory_of_all());
            rounds += 1;
        }
        drop(ends);
        println!("{} names came and went", here.join().unwrap());
    });
    assert_eq!(
        fs::metadata(&directory).unwrap().nlink(),
        u64::from(count / DIRECTORIES + 2)
    );
    seek_back(&directory, count);
}

/// The names of a directory behind a cookie, each with its own, by an open of its own.
fn behind(directory: &Path, cookie: u64) -> Vec<(String, u64)> {
    let open = File::open(directory).unwrap();
    seek(&open, SeekFrom::Start(cookie)).unwrap();
    let mut buffer = Vec::with_capacity(2000);
    let mut entries = RawDir::new(&open, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_str().unwrap().to_owned();
        names.push((name, entry.next_entry_cookie()));
    }
    names
}

#[test]
fn a_listing_continues_in_another_open_and_on_another_mount() {
    let Some(m) = Mounted::new() else { return };
    let directory = m.file("d");
    fs::create_dir(&directory).unwrap();
    for number in 0..5000 {
        fs::write(directory.join(format!("name-{number}")), b"").unwrap();
    }
    let all = behind(&directory, 0);
    assert_eq!(all.len(), 5002);
    let checks = |directory: &Path| {
        for at in (0..all.len()).step_by(700) {
            let (name, cookie) = &all[at];
            assert_eq!(behind(directory, *cookie), all[at + 1..], "{name}");
        }
    };
    checks(&directory);
    let other = m.further("other", "");
    checks(&other.join("d"));
    // The place of a name that was removed is known where it was listed; else nothing is missed.
    let (removed, cookie) = &all[3000];
    fs::remove_file(directory.join(removed)).unwrap();
    let expected = &all[3001..];
    assert_eq!(behind(&directory, *cookie), expected);
    m.unmount();
    m.mount("");
    let again = behind(&directory, *cookie);
    assert!(again.ends_with(expected));
    checks_without(&directory, &all, 3000);
}

/// As the names were listed, without one that was removed.
fn checks_without(directory: &Path, all: &[(String, u64)], removed: usize) {
    for at in (0..all.len()).step_by(900).filter(|at| *at != removed) {
        let rest = all[at + 1..]
            .iter()
            .filter(|(name, _)| *name != all[removed].0);
        assert!(behind(directory, all[at].1).iter().eq(rest));
    }
}
