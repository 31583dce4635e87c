//! The counted cost of small files on a mount: requests of the kernel, and the calls that they
//! cause.
//!
//! The table is that of `docs/design/0005-mount.md`.

mod mount_support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mount_support::{Mounted, wait_until};
use rustix::io::ReadWriteFlags;

/// Files of each case: enough for detaches to be reported together.
const FILES: u64 = 40;

/// Counts by kind, such as `request 14` or `call Attach`.
fn counts(mount: &Path) -> BTreeMap<String, u64> {
    let mut text = vec![0; 16 << 10];
    let length = rustix::fs::getxattr(mount, "user.weft.counts", &mut text[..]).unwrap();
    let text = std::str::from_utf8(&text[..length]).unwrap();
    let line = |line: &str| {
        let (what, count) = line.rsplit_once(' ').unwrap();
        (what.to_owned(), count.parse().unwrap())
    };
    text.lines().map(line).collect()
}

/// Does something to each file. Returns the requests and calls that this caused, without background
/// ones.
fn cost(
    mount: &Path,
    names: &[PathBuf],
    mut work: impl FnMut(&Path),
) -> (BTreeMap<String, u64>, u64, u64) {
    // The kernel releases files after close has returned.
    let rest = || std::thread::sleep(Duration::from_millis(100));
    rest();
    let before = counts(mount);
    for name in names {
        work(name);
    }
    rest();
    let mut after = counts(mount);
    for (what, count) in before {
        *after.get_mut(&what).unwrap() -= count;
    }
    after.retain(|what, count| {
        *count > 0 && !["call Watch", "call Ping"].contains(&what.as_str()) && what != "request 22"
    });
    let sum = |start: &str| -> u64 {
        let counts = after.iter().filter(|(what, _)| what.starts_with(start));
        counts.map(|(_, count)| *count).sum()
    };
    let (requests, calls) = (
        sum("request"),
        sum("call") - after.get("call Detach").unwrap_or(&0),
    );
    (after, requests, calls)
}

#[test]
fn small_files_cost_the_documented_number_of_calls() {
    let Some(m) = Mounted::new() else { return };
    // The watch is live from its second request on.
    wait_until("the watch is live", || {
        counts(&m.path).get("call Watch") > Some(&1)
    });
    let folder = m.file("folder");
    fs::create_dir(&folder).unwrap();
    let names: Vec<_> = (0..FILES).map(|i| folder.join(format!("f{i}"))).collect();
    let folders: Vec<_> = (0..FILES).map(|i| folder.join(format!("d{i}"))).collect();
    let at_most = |what: &str, names: &[PathBuf], requests, calls, work: &mut dyn FnMut(&Path)| {
        // One more call may ask for the attributes of the directory, and one may return a delegated
        // directory.
        let (all, asked, called) = cost(&m.path, names, work);
        println!("{what}: {all:?}");
        assert!(called <= calls + 2, "{what}: {called} calls: {all:?}");
        assert!(
            asked <= requests * FILES + 1,
            "{what}: {asked} requests: {all:?}"
        );
        let told = all.get("call Detach").unwrap_or(&0);
        assert!(*told < FILES, "closes are reported together: {all:?}");
    };
    // A call creates each of the first names. Then the mount holds the directory, and one call
    // reports many names.
    at_most("create, close", &names, 5, FILES / 2, &mut |name| {
        File::create_new(name).unwrap();
    });
    at_most("stat", &names, 0, 0, &mut |name| {
        assert_eq!(fs::metadata(name).unwrap().len(), 0);
    });
    at_most("unlink", &names, 3, FILES / 2, &mut |name| {
        fs::remove_file(name).unwrap();
    });
    // One call reports name and bytes.
    at_most(
        "create, write, close",
        &names,
        8,
        FILES + FILES / 4,
        &mut |name| {
            File::create_new(name)
                .unwrap()
                .write_all(&[7; 4096])
                .unwrap();
        },
    );
    at_most("stat of written files", &names, 1, 0, &mut |name| {
        assert_eq!(fs::metadata(name).unwrap().len(), 4096);
    });
    let read = &mut |name: &Path| {
        let mut bytes = [0; 8192];
        assert_eq!(File::open(name).unwrap().read(&mut bytes).unwrap(), 4096);
    };
    at_most("open, read, close", &names, 4, FILES, read);
    // `ls -l`, where nothing is known yet: one listing brings the attributes of all, and that they
    // have no extended ones.
    let other = m.further("other", "");
    wait_until("the watch of the other mount is live", || {
        counts(&other).get("call Watch") > Some(&1)
    });
    let (all, _, calls) = cost(&other, &[other.join("folder")], |folder| {
        let done = Command::new("ls").arg("-l").arg(folder).output().unwrap();
        assert!(done.status.success());
        let lines = String::from_utf8(done.stdout).unwrap().lines().count();
        assert_eq!(lines as u64, FILES + 1);
    });
    assert!(calls <= 5, "ls -l of {FILES} files: {all:?}");
    at_most("mkdir", &folders, 3, FILES, &mut |name| {
        fs::create_dir(name).unwrap();
    });
    at_most("rmdir", &folders, 3, FILES, &mut |name| {
        fs::remove_dir(name).unwrap();
    });
}

#[test]
fn a_synced_write_is_one_request_to_one_server() {
    let Some(m) = Mounted::new() else { return };
    let name = m.file("large");
    let file = File::create_new(&name).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; 1 << 20], 0).unwrap();
    file.sync_all().unwrap();
    let at: Vec<_> = (0..FILES).map(|i| PathBuf::from(i.to_string())).collect();
    let (all, _, calls) = cost(&m.path, &at, |at| {
        let block: u64 = at.to_str().unwrap().parse().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[2; 4096], block * 8192).unwrap();
        file.sync_data().unwrap();
    });
    // A tick of the flusher may occur in between.
    assert!(calls <= FILES + 3, "{all:?}");
    drop(file);
    let bytes = fs::read(&name).unwrap();
    assert!((0..FILES as usize).all(|i| bytes[i * 8192] == 2 && bytes[i * 8192 + 4096] == 1));
}

/// Writes a block with the flags of one write, as `pwrite` does without any.
fn put(file: &File, at: u64, block: &[u8], flags: ReadWriteFlags) {
    let wrote = rustix::io::pwritev2(file, &[std::io::IoSlice::new(block)], at, flags);
    assert_eq!(wrote, Ok(block.len()));
}

#[test]
fn synchronous_writes_that_bypass_the_page_cache_are_on_the_servers_when_they_return() {
    const LENGTH: usize = 50_000;
    let by_each = ReadWriteFlags::DSYNC;
    let none = ReadWriteFlags::empty();
    for options in ["", "strict"] {
        let Some(m) = Mounted::with_options(options) else {
            return;
        };
        fs::write(m.file("there"), vec![1; LENGTH]).unwrap();
        let open = |name: &str, flags| {
            let mut open = File::options();
            open.read(true).write(true).create(true);
            open.custom_flags(flags).open(m.file(name)).unwrap()
        };
        for (name, flags, each) in [
            ("there", libc::O_SYNC | libc::O_APPEND, none),
            ("new", libc::O_SYNC, none),
            ("new-data", libc::O_DSYNC, none),
            ("new-each", 0, by_each),
        ] {
            let what = format!("{options} {name}");
            let file = open(name, flags);
            let mut syncs = 0;
            for i in 0..10 {
                let before = counts(&m.path);
                put(&file, i * LENGTH as u64, &vec![2; LENGTH], each);
                let after = counts(&m.path);
                let of =
                    |what: &str| after.get(what).unwrap_or(&0) - before.get(what).unwrap_or(&0);
                // The kernel does not request it.
                assert_eq!(of("request 20"), 0, "{what}");
                assert!((1..=2).contains(&of("call Write")), "{what}: {after:?}");
                syncs += of("call Sync");
            }
            // Earlier unsynced writes are synced once, on both servers; then each write syncs
            // itself.
            assert!(syncs <= 2, "{what}: {syncs}");
            assert!(name != "there" || syncs > 0, "{what}");
        }
        // The bytes of a small file are stored with its metadata.
        let before = counts(&m.path);
        put(&open("small", libc::O_SYNC), 0, b"small", none);
        let after = counts(&m.path);
        let call = match options {
            "" => "call SyncNamespace",
            _ => "call Write",
        };
        assert!(after.get(call) > before.get(call), "{options}: {after:?}");
    }
}

#[test]
fn access_times_cost_no_call() {
    use std::os::unix::fs::MetadataExt;
    let Some(m) = Mounted::new() else { return };
    wait_until("the watch is live", || {
        counts(&m.path).get("call Watch") > Some(&1)
    });
    let folder = m.file("folder");
    fs::create_dir(&folder).unwrap();
    let names: Vec<_> = (0..FILES).map(|i| folder.join(format!("f{i}"))).collect();
    for (number, name) in names.iter().enumerate() {
        // One file is stored with its metadata, one on the servers.
        fs::write(name, vec![7; number % 2 * 100_000 + 10]).unwrap();
    }
    let times = || -> Vec<_> {
        let all = names.iter().map(|name| fs::metadata(name).unwrap());
        all.map(|m| (m.atime(), m.atime_nsec())).collect()
    };
    let before = times();
    let all_calls = |counts: &BTreeMap<String, u64>| -> u64 {
        let calls = counts.iter().filter(|(what, _)| what.starts_with("call"));
        calls.map(|(_, count)| *count).sum()
    };
    let read = &mut |name: &Path| assert!(fs::read(name).unwrap().len() >= 10);
    let (first, ..) = cost(&m.path, &names, &mut *read);
    let after = times();
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(before, after)| before < after)
    );
    let (again, ..) = cost(&m.path, &names, &mut *read);
    assert_eq!(
        times(),
        after,
        "the second read does not change the access time"
    );
    println!("first {first:?}, again {again:?}");
    // Four counts may differ: timing decides how many closes one call reports, the bytes are
    // cached the second time, a late notice of the writes before may cost one more `stat`, and
    // small files stay attached: those on the servers do not.
    let of = |counts: &BTreeMap<String, u64>, what| counts.get(what).copied().unwrap_or(0);
    let others = |counts: &BTreeMap<String, u64>| -> u64 {
        let free = ["call Detach", "call Read", "call Stat", "call Attach"];
        all_calls(counts) - free.map(|what| of(counts, what)).iter().sum::<u64>()
    };
    assert_eq!(others(&first), others(&again));
    assert_eq!(of(&again, "call Attach"), FILES / 2);
    assert!(of(&first, "call Attach") <= FILES, "{first:?}");
    assert_eq!(again.get("call Stat"), None, "{again:?}");
    assert!(
        first.get("call Stat").is_none_or(|stats| *stats <= 2),
        "{first:?}"
    );
    assert!(first["call Detach"] < FILES, "{first:?}");
}

#[test]
fn small_writes_into_an_addressed_file_are_gathered_into_chunks() {
    const CHUNK: u64 = 64 << 10;
    const ALL: u64 = 4 << 20;
    let Some(m) = Mounted::new() else { return };
    let of_volume = |words: &[&str]| {
        let volume = m.volume.to_str().unwrap();
        mount_support::weft_ok(&[&["--volume", volume], words].concat())
    };
    of_volume(&["create", "--addressed", "--chunk", "64KiB", "/small"]);
    let file = File::options().write(true).open(m.file("small")).unwrap();
    let mut all = Vec::new();
    for i in 0..ALL / 1024 {
        let record: Vec<u8> = (0..1024_u64)
            .map(|at| (at * 31 + i * 7 + at / 256) as u8)
            .collect();
        std::os::unix::fs::FileExt::write_all_at(&file, &record, i * 1024).unwrap();
        all.extend(record);
    }
    file.sync_all().unwrap();
    drop(file);
    assert!(fs::read(m.file("small")).unwrap() == all);
    let cleaned: serde_json::Value =
        serde_json::from_str(&of_volume(&["clean", "--json"])).unwrap();
    // Each chunk that a write left unfinished is stored as it was then. A write to the servers for
    // each record would leave 63 of each chunk, half of a chunk on average.
    let removed = cleaned["removed_bytes"].as_u64().unwrap();
    let one_by_one = ALL / 1024 * CHUNK / 2;
    assert!(removed < one_by_one / 16, "{cleaned}");
}

#[test]
fn removing_a_tree_costs_few_calls_and_no_other_mount_sees_less_or_more() {
    const DIRECTORIES: u64 = 40;
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    wait_until("the watch is live", || {
        counts(&m.path).get("call Watch") > Some(&1)
    });
    let tree = m.file("tree");
    let make = || {
        fs::create_dir(&tree).unwrap();
        for number in 0..DIRECTORIES {
            let below = tree
                .join(format!("d{}", number % 5))
                .join(format!("e{number}"));
            fs::create_dir_all(&below).unwrap();
            for file in ["a", "b", "c"] {
                fs::write(below.join(file), b"bytes").unwrap();
            }
        }
    };
    make();
    let listed = |path: &Path| fs::read_dir(path).unwrap().count();
    let top = tree.join("d0");
    assert_eq!(listed(&top), 8);
    let (again, ..) = cost(&m.path, std::slice::from_ref(&top), |top| {
        assert_eq!(listed(top), 8);
    });
    assert_eq!(
        again.get("call List"),
        None,
        "its names are known: {again:?}"
    );
    // What another mount does here, this one sees at once.
    fs::create_dir(other.join("tree/d0/more")).unwrap();
    assert_eq!(listed(&top), 9);
    fs::remove_dir(other.join("tree/d0/more")).unwrap();
    assert_eq!(listed(&top), 8);

    fs::remove_dir_all(&tree).unwrap();
    make();
    let (costs, ..) = cost(&m.path, std::slice::from_ref(&tree), |tree| {
        fs::remove_dir_all(tree).unwrap();
        assert_eq!(
            fs::metadata(tree).unwrap_err().kind(),
            std::io::ErrorKind::NotFound
        );
        wait_until("the other mount hears of it", || {
            !other.join("tree").exists()
        });
    });
    let of = |what| costs.get(what).copied().unwrap_or(0);
    assert!(
        of("call RemoveDirectory") + of("call Unlink") <= 8,
        "{costs:?}"
    );
    assert!(of("call Delegate") <= 8, "{costs:?}");
    // Whoever removes names while it lists them asks whether there are more.
    assert!(of("call List") <= 2 * (DIRECTORIES + 6), "{costs:?}");
    // A directory that another mount fills is not removed.
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::write(tree.join("d/mine"), b"").unwrap();
    fs::remove_file(tree.join("d/mine")).unwrap();
    wait_until("the other mount hears of it", || {
        other.join("tree/d").exists()
    });
    fs::write(other.join("tree/d/theirs"), b"").unwrap();
    let refused = fs::remove_dir(tree.join("d")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::DirectoryNotEmpty);
    assert_eq!(listed(&tree.join("d")), 1);
}
