//! Checkpoints under a mount, with ordinary tools.

mod mount_support;

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;

use mount_support::{Mounted, sh, wait_until, weft_ok};
use rustix::io::Errno;

fn checkpoint(m: &Mounted, action: &str, path: &str, name: &str) {
    let volume = m.volume.to_str().unwrap();
    weft_ok(&["--volume", volume, "checkpoint", action, path, name]);
}

fn errno(result: std::io::Result<impl Sized>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

#[test]
fn checkpoints_are_read_only_directories_beside_the_files() {
    let Some(m) = Mounted::new() else { return };
    let here = &m.path;
    sh(
        here,
        "mkdir -p t/d; seq 1 200000 > t/d/long; echo small > t/small; ln -s d/long t/link; ln t/small t/again
         chmod 600 t/small; touch -d @1000000000.25 t/d; cp -a t before",
    );
    checkpoint(&m, "create", "/t", "one");
    sh(
        here,
        "echo more >> t/d/long; rm t/small t/again; mkdir t/new; echo x > t/new/x; mv t/d t/moved",
    );
    let kept = "t/.weft/checkpoints/one";
    sh(
        here,
        &format!("diff -r before {kept}; cp -a {kept} copy; diff -r before copy"),
    );
    let list = "find . -printf '%P %y %m %s %T@ %n %l\\n' | sort";
    let shown = |path: &str| sh(&here.join(path), list);
    assert_eq!(shown(kept), shown("before"));
    assert_eq!(sh(here, "ls t/.weft/checkpoints").trim(), "one");
    let file = m.file(&format!("{kept}/small"));
    let rofs = Some(Errno::ROFS.raw_os_error());
    assert_eq!(errno(std::fs::write(&file, "no")), rofs);
    assert_eq!(errno(std::fs::remove_file(&file)), rofs);
    assert_eq!(
        errno(std::fs::create_dir(m.file(&format!("{kept}/x")))),
        rofs
    );
    assert_eq!(
        errno(std::fs::create_dir(m.file("t/.weft/checkpoints/x"))),
        rofs
    );
    assert_eq!(errno(std::fs::rename(&file, m.file("t/stolen"))), rofs);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    assert_eq!(errno(std::fs::set_permissions(&file, mode)), rofs);
    checkpoint(&m, "rollback", "/t", "one");
    wait_until("the mount shows the tree of the checkpoint", || {
        shown("t") == shown("before")
    });
    sh(here, "diff -r before t");
    checkpoint(&m, "delete", "/t", "one");
    assert!(!m.file(kept).exists());
}

#[test]
fn checkpoints_of_a_file_are_files_beside_it() {
    let Some(m) = Mounted::new() else { return };
    let here = &m.path;
    sh(here, "mkdir d; seq 1 100000 > d/f; echo other > d/g");
    checkpoint(&m, "create", "/d/f", "c");
    sh(here, "cp d/f before; echo changed > d/f");
    let names = "ls d/.weft/checkpoints d/.weft/checkpoints/c";
    assert_eq!(
        sh(here, names).split_whitespace().collect::<Vec<_>>(),
        ["d/.weft/checkpoints:", "c", "d/.weft/checkpoints/c:", "f"]
    );
    sh(
        here,
        "cmp before d/.weft/checkpoints/c/f; cp -a d/.weft/checkpoints/c there; cmp before there/f",
    );
    let kept = m.file("d/.weft/checkpoints/c/f");
    assert_eq!(
        errno(std::fs::write(&kept, "no")),
        Some(Errno::ROFS.raw_os_error())
    );
    assert!(!m.file("d/.weft/checkpoints/c/g").exists());
    assert!(!m.file("d/.weft/checkpoints/other").exists());
}

#[test]
fn an_open_descriptor_sees_a_rollback() {
    let Some(m) = Mounted::new() else { return };
    for (path, of) in [("t/file", "/t/file"), ("u/file", "/u")] {
        sh(
            &m.path,
            &format!("mkdir {}; seq 1 100000 > {path}", &path[..1]),
        );
        let before = std::fs::read(m.file(path)).unwrap();
        checkpoint(&m, "create", of, "c");
        let mut options = std::fs::File::options();
        let mut file = options.read(true).write(true).open(m.file(path)).unwrap();
        file.write_all(b"overwritten").unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"appended").unwrap();
        file.sync_all().unwrap();
        checkpoint(&m, "rollback", of, "c");
        wait_until("the open file has the contents of the checkpoint", || {
            let mut now = Vec::new();
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_end(&mut now).unwrap();
            now == before && file.metadata().unwrap().size() == before.len() as u64
        });
        // The descriptor keeps working.
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"again").unwrap();
        drop(file);
        let now = std::fs::read(m.file(path)).unwrap();
        assert!(now.starts_with(b"again") && now[5..] == before[5..]);
    }
}

#[test]
fn holes_of_a_checkpoint_are_holes() {
    let Some(m) = Mounted::new() else { return };
    sh(
        &m.path,
        "mkdir t; truncate -s 64M t/f; echo data | dd of=t/f bs=1M seek=20 conv=notrunc status=none",
    );
    checkpoint(&m, "create", "/t", "c");
    sh(
        &m.path,
        "dd if=/dev/zero of=t/f bs=1M count=64 conv=notrunc status=none",
    );
    let file = std::fs::File::open(m.file("t/.weft/checkpoints/c/f")).unwrap();
    let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap();
    assert_eq!(data, 20 << 20);
    let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data)).unwrap();
    assert!((data + 5..=data + (1 << 20)).contains(&hole), "{hole}");
    assert_eq!(file.metadata().unwrap().size(), 64 << 20);
}

#[test]
fn a_directory_with_checkpoints_cannot_be_removed_and_can_be_rolled_back() {
    let Some(m) = Mounted::new() else { return };
    let here = &m.path;
    sh(here, "mkdir -p t/d u; echo content > t/d/file");
    checkpoint(&m, "create", "/t/d", "c");
    let notempty = Some(Errno::NOTEMPTY.raw_os_error());
    assert_eq!(errno(std::fs::remove_dir(m.file("t/d"))), notempty);
    // Names are removed one at a time, so only the directory itself is refused.
    sh(
        here,
        "! rm -rf t 2> said; grep -q 'Directory not empty' said",
    );
    assert_eq!(sh(here, "ls -A t/d"), "");
    assert_eq!(errno(std::fs::remove_dir(m.file("t/d"))), notempty);
    assert_eq!(errno(std::fs::rename(m.file("u"), m.file("t/d"))), notempty);
    checkpoint(&m, "rollback", "/t/d", "c");
    wait_until("the file is restored", || m.file("t/d/file").exists());
    assert_eq!(sh(here, "cat t/d/file").trim(), "content");
    checkpoint(&m, "delete", "/t/d", "c");
    sh(here, "rm -rf t");
}
