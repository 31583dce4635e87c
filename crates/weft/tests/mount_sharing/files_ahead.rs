//! Whole files in delegated directories: bytes, attributes and new directories that a mount reports
//! later (`docs/design/0036-files-ahead.md`).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::ahead::{calls, live};
use crate::mount_support::{Mounted, kill, wait_until, weft_ok};

/// A file of a tree: its number decides its size, its mode and its times.
struct Planned {
    path: PathBuf,
    number: u64,
}

impl Planned {
    fn bytes(&self) -> Vec<u8> {
        // Every ninth outgrows the metadata.
        let length = if self.number % 9 == 8 { 40_000 } else { 700 };
        vec![self.number as u8; length + self.number as usize]
    }

    fn mode(&self) -> u32 {
        [0o600, 0o644, 0o755, 0o440][self.number as usize % 4]
    }

    fn modified(&self) -> SystemTime {
        UNIX_EPOCH + Duration::new(1_000_000_000 + self.number, 77)
    }

    fn owner(&self) -> (u32, u32) {
        let number = self.number as u32;
        (number % 3, number % 5)
    }

    /// Makes it as `tar` does: the attributes through the descriptor, before it is closed.
    fn make(&self, root: &Path) {
        let path = root.join(&self.path);
        let mut file = fs::File::create_new(&path).unwrap();
        for piece in self.bytes().chunks(10_240) {
            std::io::Write::write_all(&mut file, piece).unwrap();
        }
        file.set_modified(self.modified()).unwrap();
        let (uid, gid) = self.owner();
        std::os::unix::fs::fchown(&file, Some(uid), Some(gid)).unwrap();
        file.set_permissions(fs::Permissions::from_mode(self.mode()))
            .unwrap();
    }

    fn check(&self, root: &Path) {
        let path = root.join(&self.path);
        let found = fs::metadata(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(found.mode() & 0o7777, self.mode(), "{}", path.display());
        assert_eq!((found.uid(), found.gid()), self.owner());
        assert_eq!(found.modified().unwrap(), self.modified());
        assert_eq!(fs::read(&path).unwrap(), self.bytes(), "{}", path.display());
    }
}

/// `count` files in directories of ten.
fn planned(count: u64) -> Vec<Planned> {
    let file = |number| Planned {
        path: format!("d{:03}/f{number}", number / 10).into(),
        number,
    };
    (0..count).map(file).collect()
}

fn make_tree(root: &Path, files: &[Planned]) {
    fs::create_dir(root).unwrap();
    for file in files {
        let directory = root.join(file.path.parent().unwrap());
        if !directory.exists() {
            fs::create_dir(&directory).unwrap();
        }
        file.make(root);
    }
}

#[test]
fn a_new_tree_costs_few_calls_and_other_mounts_see_all_of_it() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let other = m.further("other", "");
    let files = planned(360);
    let kinds = [
        "Attach",
        "SetAttributes",
        "MakeDirectory",
        "CellStatus",
        "Delegate",
    ];
    let before = kinds.map(|kind| calls(&m.path, kind));
    make_tree(&m.file("tree"), &files);
    let after = kinds.map(|kind| calls(&m.path, kind));
    let spent: Vec<_> = kinds.iter().zip(before.iter().zip(after)).collect();
    for (kind, (before, after)) in &spent {
        assert!(after - *before <= 40, "{kind}: {spent:?}");
    }
    for file in &files {
        file.check(&other.join("tree"));
    }
    for file in &files {
        file.check(&m.file("tree"));
    }
    // A directory that was filled before its time was set, as `cp -a` and `tar` do.
    let nested = m.file("tree/nested");
    fs::create_dir_all(nested.join("a/b")).unwrap();
    fs::write(nested.join("a/f"), b"f").unwrap();
    for (path, seconds) in [("a/b", 1), ("a", 2), ("", 3)] {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        let directory = fs::File::open(nested.join(path)).unwrap();
        directory.set_modified(time).unwrap();
    }
    for (path, seconds) in [("a/b", 1), ("a", 2), ("", 3)] {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        for tree in [other.join("tree/nested"), nested.clone()] {
            let found = fs::metadata(tree.join(path)).unwrap();
            assert_eq!(found.modified().unwrap(), time, "{path}");
        }
    }
    // What is set by path, and of directories.
    let directory = m.file("tree").join("d000");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o711)).unwrap();
    chown(m.file("tree").join("d000/f1"), Some(9), Some(9)).unwrap();
    // Attributes that it has seen before follow within some milliseconds.
    wait_until("the other mount sees them", || {
        let file = fs::metadata(other.join("tree/d000/f1")).unwrap();
        let directory = fs::metadata(other.join("tree/d000")).unwrap();
        let mode = directory.mode() & 0o7777;
        (file.uid(), file.gid(), mode, directory.nlink()) == (9, 9, 0o711, 2)
    });
}

#[test]
fn a_killed_mount_has_reported_every_closed_file_with_what_was_set_before() {
    let Some(m) = Mounted::new() else { return };
    for round in 0..4 {
        live(&m);
        let files = planned(40 + round * 7);
        let root = m.file(&format!("tree{round}"));
        make_tree(&root, &files);
        kill(m.process());
        wait_until("the mount is dead", || rustix::fs::statfs(&m.path).is_err());
        m.mount("");
        for file in &files {
            file.check(&root);
        }
    }
}

#[test]
fn attributes_set_ahead_survive_a_sync_and_a_restart_of_the_service() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let files = planned(60);
    let root = m.file("tree");
    make_tree(&root, &files);
    let path = root.join("d000/f0");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    fs::File::open(&root).unwrap().sync_all().unwrap();
    for pid in m.nodes() {
        kill(pid);
    }
    weft_ok(&["up", m.volume.to_str().unwrap()]);
    let there = m.further("other", "").join("tree");
    let mode = fs::metadata(there.join("d000/f0")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o400);
    for file in &files[1..] {
        file.check(&there);
    }
}

#[test]
fn a_time_that_was_set_before_the_bytes_left_survives_a_sync_and_a_kill() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let directory = m.file("d");
    fs::create_dir(&directory).unwrap();
    let (old, long) = (
        UNIX_EPOCH + Duration::from_secs(1_000_000_000),
        vec![7; 200_000],
    );
    let write = |name: &str| {
        let mut file = fs::File::create_new(directory.join(name)).unwrap();
        std::io::Write::write_all(&mut file, &long).unwrap();
        file.set_modified(old).unwrap();
        file
    };
    let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let open = [write("synced"), write("written on"), write("closed")];
    open[0].sync_all().unwrap();
    // A later write sets the time again.
    std::os::unix::fs::FileExt::write_all_at(&open[1], b"more", 0).unwrap();
    open[1].sync_all().unwrap();
    let [synced, on, closed] = open;
    drop(closed);
    let other = m.further("other", "").join("d");
    assert_eq!(modified(&other.join("closed")), old);
    assert_eq!(modified(&other.join("synced")), old);
    assert!(modified(&other.join("written on")) > old);
    kill(m.process());
    wait_until("the mount is dead", || rustix::fs::statfs(&m.path).is_err());
    drop((synced, on));
    m.mount("");
    for path in ["synced", "closed"] {
        let path = directory.join(path);
        assert_eq!(modified(&path), old, "{}", path.display());
        assert_eq!(fs::read(&path).unwrap(), long);
    }
    assert!(modified(&directory.join("written on")) > old);
}

#[test]
fn programs_that_write_at_once_report_each_file_as_a_whole() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    let directory = m.file("shared");
    fs::create_dir(&directory).unwrap();
    let before = (calls(&m.path, "StoreInline"), calls(&m.path, "ChangeNames"));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let directory = &directory;
            scope.spawn(move || {
                for number in 0..200 {
                    let name = format!("f{thread}-{number}");
                    fs::write(directory.join(name), [thread; 900]).unwrap();
                }
            });
        }
    });
    let stored = calls(&m.path, "StoreInline") - before.0;
    let reports = calls(&m.path, "ChangeNames") - before.1;
    assert!(
        stored < 200 && reports < 800,
        "{stored} stores, {reports} reports"
    );
    let other = m.further("other", "").join("shared");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 800);
    for thread in 0..4 {
        let bytes = fs::read(other.join(format!("f{thread}-199"))).unwrap();
        assert_eq!(bytes, [thread; 900]);
    }
}
