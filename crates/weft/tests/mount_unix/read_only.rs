//! A read-only mount against all operations that change something.

use std::fs;
use std::path::Path;

use crate::mount_support::{Mounted, sh, wait_until};

/// The complete state of a tree: names, kinds, modes, owners, links, sizes, times, user attributes,
/// access lists, layouts and bytes.
fn whole(tree: &Path) -> String {
    sh(
        tree,
        "find . | sort | while read -r name; do stat -c '%n %f %u %g %h %s %X %.9Y %.9Z %t:%T' \"$name\"; \
         getfattr -h -d -m - -e hex \"$name\"; readlink \"$name\" || true; \
         [ -L \"$name\" ] || getfattr --only-values -n user.weft.layout \"$name\" 2>&1 || true; done; \
         find . -type f | sort | xargs sha256sum",
    )
}

#[test]
fn a_read_only_mount_changes_nothing() {
    // Reads for the comparison must not count as accesses.
    let Some(m) = Mounted::with_options("noatime") else {
        return;
    };
    sh(
        &m.path,
        "echo x > f; head -c 300000 /dev/urandom > large; mkdir -p d/empty; ln -s f link; ln f hard; mkfifo fifo; : > nothing; \
         setfattr -n user.colour -v blue f; sync",
    );
    let other = m.further("other", "ro");
    // Compare once pending changes have settled.
    let before = whole(&m.path);
    assert!(
        before.contains("user.colour") && before.contains("cells=2"),
        "{before}"
    );
    assert_eq!(whole(&other), before);
    let scripts = [
        "echo y > f",
        "echo y >> f",
        "dd if=/dev/zero of=large bs=4K count=1 conv=notrunc",
        "dd if=/dev/zero of=large bs=4K count=1 oflag=direct conv=notrunc",
        "printf y | dd of=.weft/views/large/cell=0 conv=notrunc",
        "truncate -s 0 f",
        "truncate -s 1G large",
        "fallocate -l 1M f",
        "fallocate -p -o 0 -l 4096 large",
        ": > new",
        "mkdir new",
        "mkfifo new",
        "mknod new c 1 3",
        "ln f new",
        "ln -s f new",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"new\")'",
        "rm f",
        "rmdir d/empty",
        "mv -T f d/f",
        "mv --exchange -T f large || python3 -c 'import os; os.rename(\"f\", \"large\")'",
        "chmod 600 f",
        "chown 7:7 f",
        "chown -h 7:7 link",
        "touch f",
        "touch -a -d @1 f",
        "touch -h -d @1 link",
        "touch -d @1 d",
        "setfattr -n user.colour -v red f",
        "setfattr -x user.colour f",
        "setfattr -n user.weft.layout -v cells=5 d",
        "setfattr -n user.weft.layout -v cells=5 nothing",
        "setfattr -n system.posix_acl_access -v 0x0200000001000600ffffffff04000400ffffffff20000400ffffffff f",
        "cp --reflink=never large f",
        "python3 -c 'import os; os.copy_file_range(os.open(\"large\", 0), os.open(\"f\", 1), 100)'",
        "python3 -c 'import mmap, os; mmap.mmap(os.open(\"large\", 2), 4096)[0] = 1'",
    ];
    for script in scripts {
        let said = sh(&other, &format!("export LC_ALL=C; ! {{ {script}; }} 2>&1"));
        assert!(said.contains("Read-only file system"), "{script}: {said}");
    }
    // Reading, locking and denied requests change nothing either.
    sh(
        &other,
        "cat f large link > /dev/null; ls -laR . > /dev/null; flock -s f true; cat .weft/views/large/cell=1 > /dev/null; \
         ! test -w f; sync",
    );
    sh(&other, "for i in 1 2 3; do cat large > /dev/null; done");
    assert_eq!(whole(&other), before);
    assert_eq!(whole(&m.path), before);
    // A read-only mount shows changes by others.
    sh(&m.path, "echo more >> f; mkdir new");
    wait_until("the read-only mount shows the changes", || {
        fs::read(other.join("f")).unwrap() == b"x\nmore\n" && other.join("new").is_dir()
    });
}
