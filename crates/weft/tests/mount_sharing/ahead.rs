//! Delegated directories: names that a mount creates and removes before it reports them to the
//! service.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::ends_support::Ends;
use crate::mount_support::{Mounted, kill, wait_until, weft_ok};

pub fn calls(mount: &Path, kind: &str) -> u64 {
    let mut text = vec![0; 16 << 10];
    let length = rustix::fs::getxattr(mount, "user.weft.counts", &mut text[..]).unwrap();
    let text = std::str::from_utf8(&text[..length]).unwrap();
    let line = format!("call {kind} ");
    let count = text.lines().find_map(|l| l.strip_prefix(&line));
    count.map_or(0, |count| count.parse().unwrap())
}

pub fn live(m: &Mounted) {
    // The watch is live from its second request on.
    wait_until("the watch is live", || calls(&m.path, "Watch") > 1);
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn unreported_names_and_removals_are_seen_by_other_mounts_at_once() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let other = m.further("other", "");
    fs::create_dir(m.file("names")).unwrap();
    let long = fs::metadata(m.file("names").join("n".repeat(256)));
    let too_long = Errno::NAMETOOLONG.raw_os_error();
    assert_eq!(long.unwrap_err().raw_os_error(), Some(too_long));
    for round in 0..12 {
        let (here, there) = (
            m.file(&format!("d{round}")),
            other.join(format!("d{round}")),
        );
        fs::create_dir(&here).unwrap();
        for number in 0..30 {
            let name = here.join(format!("f{number:02}"));
            if number % 10 == 9 {
                fs::write(name, [number; 3000]).unwrap();
            } else {
                fs::File::create_new(name).unwrap();
            }
        }
        match round % 4 {
            0 => assert_eq!(names(&there).len(), 30),
            1 => assert!(fs::metadata(there.join("f28")).is_ok()),
            2 => assert_eq!(fs::read(there.join("f29")).unwrap(), [29; 3000]),
            _ => {
                let error = fs::File::create_new(there.join("f28")).unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
            }
        }
        // Long enough for the directory to be delegated again.
        if round % 4 == 1 {
            std::thread::sleep(Duration::from_millis(2100));
        }
        for number in 0..25 {
            fs::remove_file(here.join(format!("f{number:02}"))).unwrap();
        }
        let start = Instant::now();
        assert_eq!(names(&there), ["f25", "f26", "f27", "f28", "f29"]);
        assert!(
            start.elapsed() < Duration::from_secs(4),
            "the directory was not returned"
        );
        assert_eq!(names(&here).len(), 5);
        // Attributes follow names within some milliseconds.
        wait_until("the directory counts its names", || {
            fs::metadata(&there).unwrap().len() == 5
        });
        for name in names(&there) {
            fs::remove_file(there.join(name)).unwrap();
        }
        fs::remove_dir(&there).unwrap();
        assert!(!here.exists() || names(&here).is_empty());
    }
    assert!(
        calls(&m.path, "Delegate") >= 12,
        "directories were delegated"
    );
    let told = calls(&m.path, "ChangeNames");
    assert!(
        told > 12 && told < 12 * 30,
        "{told} calls reported 12 × 55 names"
    );
}

#[test]
fn a_killed_mount_has_reported_synced_names_and_closed_files_with_data() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let directory = m.file("d");
    fs::create_dir(&directory).unwrap();
    for number in 0..200 {
        fs::File::create_new(directory.join(format!("f{number:03}"))).unwrap();
    }
    fs::File::open(&directory).unwrap().sync_all().unwrap();
    fs::remove_file(directory.join("f000")).unwrap();
    fs::write(directory.join("closed"), b"bytes").unwrap();
    kill(m.process());
    wait_until("the mount is dead", || rustix::fs::statfs(&m.path).is_err());
    m.mount("");
    let there = names(&directory);
    assert_eq!(there.len(), 200, "{there:?}");
    assert_eq!(fs::read(directory.join("closed")).unwrap(), b"bytes");
}

#[test]
fn nobody_waits_for_a_mount_whose_process_was_killed() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let directories: Vec<_> = (0..6).map(|n| m.file(&format!("d{n}"))).collect();
    for directory in &directories {
        fs::create_dir(directory).unwrap();
        for number in 0..5 {
            fs::write(directory.join(format!("f{number}")), b"bytes").unwrap();
        }
    }
    let other = m.further("other", "");
    kill(m.process());
    wait_until("the mount is dead", || rustix::fs::statfs(&m.path).is_err());
    // A holder that may be alive is waited for 5 seconds.
    let begun = Instant::now();
    for (number, directory) in directories.iter().enumerate() {
        let there = other.join(directory.file_name().unwrap());
        assert_eq!(names(&there).len(), 5);
        fs::write(there.join("more"), format!("{number}")).unwrap();
    }
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn unreported_names_survive_a_restart_of_the_service() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let directory = m.file("d");
    fs::create_dir(&directory).unwrap();
    let made = directory.clone();
    let maker = std::thread::spawn(move || {
        let start = Instant::now();
        let mut number = 0;
        while start.elapsed() < Duration::from_millis(1500) {
            fs::File::create_new(made.join(format!("f{number:05}"))).unwrap();
            if number % 3 == 2 {
                fs::remove_file(made.join(format!("f{:05}", number - 1))).unwrap();
            }
            number += 1;
        }
        number
    });
    std::thread::sleep(Duration::from_millis(300));
    for pid in m.nodes() {
        kill(pid);
    }
    weft_ok(&["up", m.volume.to_str().unwrap()]);
    let number: usize = maker.join().unwrap();
    fs::File::open(&directory).unwrap().sync_all().unwrap();
    let other = m.further("other", "").join("d");
    let kept = (0..number).filter(|n| n % 3 != 1 || n + 1 == number);
    let expected: Vec<String> = kept.map(|n| format!("f{n:05}")).collect();
    assert_eq!(names(&other), expected);
}

/// Creates files without a pause, so that the directory stays delegated, until some time after a
/// limit on them was set. Returns how many.
fn make_beyond_a_bound(m: &Mounted, directory: &Path) -> usize {
    let (stop, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let lent = calls(&m.path, "Delegate");
    std::thread::scope(|scope| {
        let _ends = Ends(&stop);
        scope.spawn(|| {
            let mut more = 100;
            while more > 0 {
                let number = made.load(Ordering::Relaxed);
                if fs::File::create_new(directory.join(format!("f{number:06}"))).is_err() {
                    break;
                }
                made.store(number + 1, Ordering::Relaxed);
                more -= u32::from(stop.load(Ordering::Relaxed));
            }
        });
        wait_until("the directory is delegated", || {
            made.load(Ordering::Relaxed) >= 100 && calls(&m.path, "Delegate") > lent
        });
        quota(m, &["set", "--user", "0", "--files", "1"]);
    });
    made.into_inner()
}

fn quota(m: &Mounted, words: &[&str]) {
    let volume = ["--volume", m.volume.to_str().unwrap(), "quota"];
    weft_ok(&[&volume, words].concat());
}

#[test]
fn names_that_are_removed_one_after_the_other_are_reported_together() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let directory = m.file("d");
    fs::create_dir(&directory).unwrap();
    for number in 0..3000 {
        fs::File::create_new(directory.join(format!("f{number}"))).unwrap();
    }
    let (before, begun) = (calls(&m.path, "ChangeNames"), Instant::now());
    for number in 0..3000 {
        fs::remove_file(directory.join(format!("f{number}"))).unwrap();
    }
    let reports = calls(&m.path, "ChangeNames") - before;
    // One every four milliseconds, and one for each 256.
    let most = begun.elapsed().as_millis() as u64 / 4 + 3000 / 256 + 10;
    assert!(
        reports <= most,
        "{reports} reports, at most {most} expected"
    );
    assert!(names(&directory).is_empty());
}

#[test]
fn a_quota_takes_delegated_directories_back_before_it_is_answered() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let directory = m.file("d");
    fs::create_dir(&directory).unwrap();
    let create = |number: usize| fs::File::create_new(directory.join(format!("f{number}")));
    for number in 0..20 {
        create(number).unwrap();
    }
    let before = calls(&m.path, "Attach");
    fs::create_dir(directory.join("inner")).unwrap();
    create(20).unwrap();
    assert_eq!(
        calls(&m.path, "Attach"),
        before,
        "the directory is delegated"
    );
    quota(&m, &["set", "--user", "0", "--files", "5"]);
    for number in 30..40 {
        let error = create(number).unwrap_err().raw_os_error();
        assert_eq!(error, Some(Errno::DQUOT.raw_os_error()));
        let inner = directory.join("inner").join(format!("f{number}"));
        let error = fs::File::create_new(inner).unwrap_err().raw_os_error();
        assert_eq!(error, Some(Errno::DQUOT.raw_os_error()));
    }
    let opened = fs::File::open(&directory).unwrap();
    opened.sync_all().unwrap();
    assert_eq!(names(&directory).len(), 22, "what was made before is there");
}

#[test]
fn a_name_refused_after_its_creation_disappears_and_fails_the_next_sync() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let other = m.further("other", "");
    for round in 0..10 {
        let name = format!("d{round}");
        let directory = m.file(&name);
        fs::create_dir(&directory).unwrap();
        let made = make_beyond_a_bound(&m, &directory);
        let opened = fs::File::open(&directory).unwrap();
        let told = opened.sync_all();
        // Names within the limit exist for all clients; names beyond it for none.
        let here = names(&directory);
        let expected: Vec<String> = (0..here.len()).map(|n| format!("f{n:06}")).collect();
        assert_eq!(here, expected);
        assert_eq!(names(&other.join(&name)), here);
        if here.len() < made {
            assert!(!directory.join(format!("f{:06}", made - 1)).exists());
            let error = told.unwrap_err().raw_os_error();
            assert_eq!(error, Some(Errno::DQUOT.raw_os_error()));
            opened.sync_all().unwrap();
            return;
        }
        // The directory was not delegated at that moment, so each was refused at once.
        told.unwrap();
        quota(&m, &["clear", "--user", "0"]);
    }
    panic!("no name was refused after its creation");
}
