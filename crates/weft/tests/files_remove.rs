//! `weft rm -r`: what it refuses, and how deep it goes.

mod files_support;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use files_support::Volume;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

#[test]
fn a_tree_with_checkpoints_in_it_is_refused_by_path_before_anything_is_removed() {
    let volume = Volume::up();
    volume.text("mkdir -p /t/d/e /t/other");
    volume.feed("put /t/d/e/file", b"content");
    volume.feed("put /t/first", b"content");
    volume.text("checkpoint create /t/d monday");
    volume.text("checkpoint create /t/other tuesday");
    // Removing a file removes its checkpoints.
    volume.text("checkpoint create /t/first own");
    let said = volume.fails("rm -r /t", 1);
    for words in [
        "nothing of /t was removed",
        "\n  weft checkpoint delete /t/d monday\n",
        "\n  weft checkpoint delete /t/other tuesday\n",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("own"), "{said}");
    assert_eq!(volume.text("cat /t/d/e/file"), "content");
    assert_eq!(volume.text("ls /t"), "d\nfirst\nother\n");
    // `rm -d` refuses such a directory, too.
    volume.text("mkdir /kept");
    volume.text("checkpoint create /kept c");
    let said = volume.fails("rm -d /kept", 1);
    let words = "/kept: a directory that has checkpoints cannot be removed";
    assert!(said.contains(words), "{said}");
    volume.text("checkpoint delete /t/d monday");
    let said = volume.fails("rm -r /t", 1);
    assert!(said.contains("/t/other tuesday") && !said.contains("monday"));
    volume.text("checkpoint delete /t/other tuesday");
    volume.text("rm -r /t");
    volume.fails("stat /t", 1);
}

#[test]
fn many_checkpoints_in_the_way_are_counted() {
    let volume = Volume::up();
    volume.text("mkdir /t");
    for n in 0..12 {
        volume.text(&format!("checkpoint create /t c{n}"));
    }
    let said = volume.fails("rm -r /t", 1);
    assert_eq!(said.matches("weft checkpoint delete").count(), 10, "{said}");
    assert!(said.contains("and 2 more"), "{said}");
}

/// A directory of a tree that is deeper than the longest path.
fn deep(root: &Path, levels: usize, make: bool) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, root, flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        if make {
            mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
        }
        at = openat(&at, "d", flags, Mode::empty()).unwrap();
    }
    at
}

#[test]
fn a_tree_deeper_than_the_longest_path_is_copied_in_and_out_and_removed() {
    // Each name takes two bytes; a path has at most 4096.
    const LEVELS: usize = 2200;
    let volume = Volume::up();
    let (source, copy) = (volume.path("source"), volume.path("copy"));
    std::fs::create_dir(&source).unwrap();
    let bottom = deep(&source, LEVELS, true);
    let flags = OFlags::CREATE | OFlags::WRONLY;
    let file = openat(&bottom, "file", flags, Mode::from_raw_mode(0o640)).unwrap();
    rustix::io::write(&file, b"at the bottom").unwrap();
    let (from, to) = (source.display(), copy.display());
    volume.text(&format!("cp -r {from} weft:/in"));
    volume.text(&format!("export -r /in {to}"));
    let file = openat(
        deep(&copy, LEVELS, false),
        "file",
        OFlags::RDONLY,
        Mode::empty(),
    );
    let file = file.unwrap();
    let mut text = [0; 100];
    let got = rustix::io::read(&file, &mut text[..]).unwrap();
    assert_eq!(&text[..got], b"at the bottom");
    assert_eq!(rustix::fs::fstat(&file).unwrap().st_mode & 0o777, 0o640);
    volume.text("chmod -R go-rwx /in");
    volume.text("rm -r /in");
    assert_eq!(volume.text("ls /"), "");
    // The test's folder is emptied by a tool that supports such depth.
    let emptied = Command::new("rm")
        .arg("-rf")
        .args([&source, &copy])
        .status();
    assert!(emptied.unwrap().success());
}
