//! Access times, beside those of a local file system under the same options.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

use crate::mount_support::{Mounted, sh, wait_until};

/// A local file system, unmounted on drop.
struct Plain(PathBuf);

impl Plain {
    fn under(path: PathBuf) -> Plain {
        mount(
            "none",
            &path,
            "tmpfs",
            MountFlags::empty(),
            None::<&std::ffi::CStr>,
        )
        .unwrap();
        Plain(path)
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn times(m: &Metadata) -> [(i64, i64); 3] {
    [
        (m.atime(), m.atime_nsec()),
        (m.mtime(), m.mtime_nsec()),
        (m.ctime(), m.ctime_nsec()),
    ]
}

/// Runs a script in a directory. Returns which times of these names it changed.
fn changed(tree: &Path, names: &[&str], script: &str) -> String {
    std::thread::sleep(Duration::from_millis(20));
    let look = || -> Vec<_> {
        let all = names.iter().map(|name| tree.join(name).symlink_metadata());
        all.map(|m| times(&m.unwrap())).collect()
    };
    let before = look();
    sh(tree, script);
    let after = look();
    let mut said = format!("{script}:");
    for (name, (before, after)) in names.iter().zip(before.iter().zip(&after)) {
        said.extend([" ", name, " "]);
        for (time, (before, after)) in "amc".chars().zip(before.iter().zip(after)) {
            said.push(if before == after { '-' } else { time });
        }
    }
    said
}

#[test]
fn access_times_follow_the_options_of_a_mount_as_on_a_local_file_system() {
    let Some(m) = Mounted::new() else { return };
    let plain = Plain::under(m.beside("plain"));
    for tree in [&m.path, &plain.0] {
        sh(
            tree,
            "echo text > f; mkdir d; echo text > d/inside; ln -s f link",
        );
    }
    let reads = [
        "cat f",
        "cat f",
        "ls d",
        "ls d",
        "cat link",
        "readlink link",
        "dd if=f iflag=noatime status=none",
        "dd if=f iflag=direct status=none || true",
        "stat f",
        "cat d/inside",
        "exec 3< f; read -u 3 word; exec 3<&-",
    ];
    let writes = [
        "echo more >> f",
        "echo other > f",
        "touch -a -d @1000000000 f",
        "chmod 600 f",
        "touch d/new; rm d/new",
        "mv f g; mv g f",
    ];
    for options in [
        MountFlags::RELATIME,
        MountFlags::NOATIME,
        MountFlags::STRICTATIME,
        MountFlags::RELATIME | MountFlags::NODIRATIME,
        MountFlags::STRICTATIME | MountFlags::NODIRATIME,
        MountFlags::RDONLY | MountFlags::STRICTATIME,
        MountFlags::RELATIME,
    ] {
        for tree in [&m.path, &plain.0] {
            mount_remount(tree, options, "").unwrap();
        }
        let changes: &[&str] = if options.contains(MountFlags::RDONLY) {
            &[]
        } else {
            &writes
        };
        // The kernel does not report that it followed a cached link.
        let names: &[&str] = if options.contains(MountFlags::STRICTATIME) {
            &["f", "d"]
        } else {
            &["f", "d", "link"]
        };
        for write in [None].into_iter().chain(changes.iter().map(Some)) {
            for script in write.into_iter().chain(&reads) {
                let [here, there] = [&m.path, &plain.0].map(|tree| changed(tree, names, script));
                assert_eq!(here, there, "{options:?} after {write:?}");
            }
        }
    }
}

#[test]
fn access_times_survive_an_unmount_and_appear_on_other_mounts() {
    let Some(m) = Mounted::new() else { return };
    sh(
        &m.path,
        "mkdir d; echo text > d/f; echo text > d/g; ln -s f d/link; touch -d @1000000000 d/g",
    );
    let look = |tree: &Path| {
        ["d", "d/f", "d/g", "d/link"]
            .map(|name| times(&tree.join(name).symlink_metadata().unwrap()))
    };
    let before = look(&m.path);
    std::thread::sleep(Duration::from_millis(20));
    sh(&m.path, "ls d; cat d/link d/g");
    let after = look(&m.path);
    for (before, after) in before.iter().zip(&after) {
        assert!(before[0] < after[0] && before[1..] == after[1..]);
    }
    // A mount without cached attributes.
    let other = m.further("other", "noatime");
    wait_until("another mount shows the times", || look(&other) == after);
    sh(&m.path, "touch -a -d @1000000000 d/f");
    let after = look(&m.path);
    assert_eq!(
        after[1][0],
        (1_000_000_000, 0),
        "an explicitly set time stays"
    );
    m.unmount();
    m.mount("noatime");
    assert_eq!(look(&m.path), after);
}
