//! Access control lists and supplementary groups, for users other than root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::mount_support::{Mounted, sh, wait_until};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// The subject of an entry: the tag, and the id if it has one.
#[derive(Clone, Copy)]
enum To {
    Owner,
    User(u32),
    Group,
    GroupOf(u32),
    Mask,
    Other,
}

/// A list in the kernel's format: version 2, then tag, permissions and id of each entry.
fn list(entries: &[(To, u16)]) -> Vec<u8> {
    let mut out = 2_u32.to_le_bytes().to_vec();
    for (to, permissions) in entries {
        let (tag, id) = match to {
            To::Owner => (0x01_u16, u32::MAX),
            To::User(id) => (0x02, *id),
            To::Group => (0x04, u32::MAX),
            To::GroupOf(id) => (0x08, *id),
            To::Mask => (0x10, u32::MAX),
            To::Other => (0x20, u32::MAX),
        };
        out.extend(tag.to_le_bytes());
        out.extend(permissions.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    out
}

fn set(path: &Path, name: &str, entries: &[(To, u16)]) {
    setxattr(path, name, &list(entries), XattrFlags::empty()).unwrap();
}

fn get(path: &Path, name: &str) -> Vec<u8> {
    let mut value = [0; 256];
    let length = getxattr(path, name, &mut value[..]).unwrap_or(0);
    value[..length].to_vec()
}

/// Whether a user, in a group of the same number and these others, can run a script in a directory.
/// Other failures fail the test.
fn may(directory: &Path, user: u32, groups: &[u32], script: &str) -> bool {
    let user = user.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user]);
    if groups.is_empty() {
        command.arg("--clear-groups");
    } else {
        let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
        command.args(["--groups", &groups.join(",")]);
    }
    let output = command
        .args(["bash", "-c", script])
        .env("LC_ALL", "C")
        .current_dir(directory)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || words.contains("Permission denied"),
        "{user} {groups:?} {script}: {words}"
    );
    output.status.success()
}

fn made(path: &Path, mode: u32) {
    fs::write(path, b"text").unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_access_list_grants_and_denies_on_every_mount() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    fs::set_permissions(&m.path, Permissions::from_mode(0o755)).unwrap();
    let (read, write) = ("cat f", "echo more >> f");
    made(&m.file("f"), 0o640);
    for directory in [&m.path, &other] {
        assert!(
            !may(directory, 1000, &[], read),
            "only root may read the file"
        );
    }
    let entries = [
        (To::Owner, 6),
        (To::User(1000), 6),
        (To::User(1001), 0),
        (To::Group, 0),
        (To::GroupOf(3000), 4),
        (To::Mask, 6),
        (To::Other, 4),
    ];
    set(&m.file("f"), ACCESS, &entries);
    let mode = |directory: &Path| fs::metadata(directory.join("f")).unwrap().mode() & 0o777;
    for directory in [&m.path, &other] {
        // The group's bits show the mask.
        wait_until("the mount shows the list", || {
            get(&directory.join("f"), ACCESS) == list(&entries) && mode(directory) == 0o664
        });
        let may =
            |user, groups: &[u32]| [read, write].map(|what| may(directory, user, groups, what));
        assert_eq!(may(1000, &[]), [true, true]);
        assert_eq!(
            may(1001, &[]),
            [false, false],
            "the entry of the user denies, although others may read"
        );
        assert_eq!(
            may(1001, &[3000]),
            [false, false],
            "the entry of the user denies, although its group may read"
        );
        assert_eq!(may(1002, &[]), [true, false]);
        assert_eq!(may(1002, &[3000]), [true, false]);
        assert_eq!(
            may(1002, &[0]),
            [false, false],
            "the owning group applies, not the others"
        );
    }
    // The mask limits the list, except for the owner and others.
    fs::set_permissions(other.join("f"), Permissions::from_mode(0o604)).unwrap();
    for directory in [&other, &m.path] {
        wait_until("the mount shows the mask", || mode(directory) == 0o604);
        assert!(!may(directory, 1000, &[], read));
        assert!(may(directory, 1002, &[], read));
    }
}

#[test]
fn new_entries_inherit_the_default_access_list() {
    let Some(m) = Mounted::new() else { return };
    fs::set_permissions(&m.path, Permissions::from_mode(0o755)).unwrap();
    let directory = m.file("d");
    fs::create_dir(&directory).unwrap();
    let entries = [
        (To::Owner, 7),
        (To::User(1000), 7),
        (To::Group, 5),
        (To::Mask, 7),
        (To::Other, 0),
    ];
    set(&directory, DEFAULT, &entries);
    // It applies to new entries: the directory itself stays accessible to all.
    assert!(may(&m.path, 1001, &[], "ls d"));
    sh(
        &directory,
        "umask 077; mkdir -p sub/below; echo text > sub/f",
    );
    assert_eq!(get(&directory.join("sub/below"), DEFAULT), list(&entries));
    assert_eq!(get(&directory.join("sub/below"), ACCESS), list(&entries));
    // Created with 0666: it is not executable, and the umask does not apply.
    let mut file = entries;
    (file[0].1, file[3].1) = (6, 6);
    assert_eq!(get(&directory.join("sub/f"), ACCESS), list(&file));
    for directory in [directory.clone(), m.further("other", "").join("d")] {
        let may = |user, script| may(&directory, user, &[], script);
        assert!(may(
            1000,
            "cat sub/f; echo more >> sub/f; mkdir sub/below/x; rmdir sub/below/x"
        ));
        assert!(!may(1001, "ls sub"));
        assert!(!may(1001, "cat sub/f"));
        assert!(
            !may(1000, "touch x"),
            "the directory's own list does not grant it"
        );
    }
}

#[test]
fn supplementary_groups_grant_their_rights_and_no_others() {
    let Some(m) = Mounted::new() else { return };
    fs::set_permissions(&m.path, Permissions::from_mode(0o755)).unwrap();
    made(&m.file("f"), 0o640);
    let directory = m.file("d");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o770)).unwrap();
    for path in [m.file("f"), directory] {
        chown(path, None, Some(3000)).unwrap();
    }
    for directory in [m.path.clone(), m.further("other", "strict")] {
        // Both cases, twice: the result for one process must not affect the next.
        for round in 0..2 {
            let make =
                format!("echo text > d/made-{round} && mv d/made-{round} d/moved && rm d/moved");
            for (groups, expected) in [
                (&[3000][..], true),
                (&[], false),
                (&[2999, 3000, 3001], true),
                (&[2999], false),
            ] {
                for script in ["cat f", "ls d", &make] {
                    assert_eq!(
                        may(&directory, 1000, groups, script),
                        expected,
                        "{groups:?} {script}"
                    );
                }
                assert!(
                    !may(&directory, 1000, groups, "echo more >> f"),
                    "{groups:?}"
                );
            }
        }
    }
}

#[test]
fn views_and_checkpoints_follow_the_permissions_of_their_file() {
    let Some(m) = Mounted::new() else { return };
    fs::set_permissions(&m.path, Permissions::from_mode(0o755)).unwrap();
    made(&m.file("f"), 0o666);
    made(&m.file("roots"), 0o600);
    let other = m.further("other", "");
    for directory in [&m.path, &other] {
        for script in [
            "ls .weft",
            "test \"$(cat .weft/views/f/cell=0)\" = text",
            "printf T | dd of=.weft/views/f/cell=0 conv=notrunc status=none; printf t > .weft/views/f/cell=0",
            "ls .weft/checkpoints",
        ] {
            assert!(may(directory, 1000, &[], script), "{script}");
        }
        assert!(!may(directory, 1000, &[], "cat .weft/views/roots/cell=0"));
    }
    // A write through a view clears set-id bits, like a write by name.
    fs::set_permissions(m.file("f"), Permissions::from_mode(0o6777)).unwrap();
    assert!(may(
        &m.path,
        1000,
        &[],
        "printf T | dd of=.weft/views/f/cell=0 conv=notrunc status=none"
    ));
    assert_eq!(fs::metadata(m.file("f")).unwrap().mode() & 0o7777, 0o777);
}
