//! Set-id bits of a file whose bytes or owner change, beside those of a local file system.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::mount_support::Mounted;

const MODES: [u32; 9] = [
    0o6666, 0o6676, 0o6766, 0o6777, 0o2666, 0o2676, 0o2766, 0o2777, 0o4777,
];

/// The operations on each file, as Python.
const WAYS: [(&str, &str); 9] = [
    ("write", "os.write(os.open(f, os.O_WRONLY), b'x')"),
    (
        "append",
        "os.write(os.open(f, os.O_WRONLY | os.O_APPEND), b'x')",
    ),
    ("empty", "os.open(f, os.O_WRONLY | os.O_TRUNC)"),
    ("truncate", "os.truncate(f, 100)"),
    ("ftruncate", "os.ftruncate(os.open(f, os.O_RDWR), 100)"),
    (
        "room",
        "libc.fallocate(os.open(f, os.O_RDWR), 0, 65536, 65536)",
    ),
    (
        "punch",
        "libc.fallocate(os.open(f, os.O_RDWR), 3, 65536, 65536)",
    ),
    (
        "zero",
        "libc.fallocate(os.open(f, os.O_RDWR), 16, 65536, 65536)",
    ),
    (
        "copy",
        "os.copy_file_range(os.open('from', os.O_RDONLY), os.open(f, os.O_RDWR), 65536)",
    ),
];

/// The acting users: user, group, supplementary groups.
const USERS: [(u32, u32, &[u32]); 4] = [
    (0, 0, &[]),
    (1000, 1000, &[]),
    (1000, 1000, &[3000]),
    (1000, 3000, &[]),
];

fn prepare(directory: &Path) {
    fs::write(directory.join("from"), vec![1; 192 << 10]).unwrap();
    for (way, _) in WAYS {
        for mode in MODES {
            let path = directory.join(format!("{way}-{mode:o}"));
            fs::write(&path, vec![2; 192 << 10]).unwrap();
            chown(&path, Some(0), Some(3000)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
    }
}

fn act(directory: &Path, (user, group, groups): (u32, u32, &[u32])) {
    let mut script = "import os, ctypes\nlibc = ctypes.CDLL(None)\n\
                      libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]\n"
        .to_owned();
    for (way, action) in WAYS {
        for mode in MODES {
            let mode = format!("{mode:o}");
            script.extend(["f = '", way, "-", &mode, "'\n", action, "\n"]);
        }
    }
    let mut command = Command::new("setpriv");
    let (user, group) = (user.to_string(), group.to_string());
    command.args(["--reuid", &user, "--regid", &group]);
    if groups.is_empty() {
        command.arg("--clear-groups");
    } else {
        let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
        command.args(["--groups", &groups.join(",")]);
    }
    let python = ["/usr/bin/python3", "python3"];
    let python = python.into_iter().find(|p| Path::new(p).exists());
    let done = command
        .args([python.unwrap_or("python3"), "-c", &script])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{user}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

fn modes(directory: &Path) -> Vec<(String, String)> {
    let names = WAYS.iter().flat_map(|(way, _)| {
        let name = move |mode| format!("{way}-{mode:o}");
        MODES.into_iter().map(name)
    });
    let mode = |name: String| {
        let mode = directory.join(&name).metadata().unwrap().mode() & 0o7777;
        (name, format!("{mode:o}"))
    };
    names.map(mode).collect()
}

#[test]
fn set_id_bits_are_cleared_and_kept_as_on_a_local_file_system() {
    let Some(m) = Mounted::new() else { return };
    let plain = m.beside("plain");
    let trees = [&m.path, &plain];
    fs::set_permissions(m.path.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    for tree in trees {
        fs::set_permissions(tree, Permissions::from_mode(0o777)).unwrap();
    }
    for user in USERS {
        for tree in trees {
            prepare(tree);
            act(tree, user);
        }
        let [here, there] = trees.map(|tree| modes(tree));
        assert_eq!(here, there, "{user:?}");
    }
    // A change of owner: by root, and by the owner to a group of its own.
    for tree in trees {
        prepare(tree);
    }
    let chowned = |tree: &Path| {
        for mode in MODES {
            chown(tree.join(format!("write-{mode:o}")), Some(1000), None).unwrap();
            chown(tree.join(format!("append-{mode:o}")), None, Some(4000)).unwrap();
            chown(tree.join(format!("empty-{mode:o}")), Some(0), Some(3000)).unwrap();
        }
        modes(tree)
    };
    let [here, there] = trees.map(|tree| chowned(tree));
    assert_eq!(here, there);
    let kept = here.iter().find(|(name, _)| name == "write-6766");
    assert_eq!(kept.unwrap().1, "2766", "the file cannot run as its group");
}
