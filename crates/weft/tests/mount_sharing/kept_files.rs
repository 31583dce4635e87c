//! Small files that stay attached after they are closed (`docs/design/0037-kept-files.md`).

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use crate::ahead::{calls, live};
use crate::mount_support::{Mounted, wait_until};

fn bytes(number: usize) -> Vec<u8> {
    vec![number as u8; 100 + number]
}

/// Makes small files, as another mount sees them: with nothing of them cached.
fn make_files(directory: &Path, count: usize) {
    fs::create_dir(directory).unwrap();
    for number in 0..count {
        fs::write(directory.join(format!("f{number:03}")), bytes(number)).unwrap();
    }
}

fn read_all(directory: &Path, count: usize) {
    for number in 0..count {
        let read = fs::read(directory.join(format!("f{number:03}"))).unwrap();
        assert_eq!(read, bytes(number));
    }
}

#[test]
fn small_files_that_are_opened_one_after_the_other_or_again_cost_few_calls() {
    let Some(m) = Mounted::new() else { return };
    make_files(&m.file("d"), 200);
    let other = m.further("other", "");
    live_at(&other);
    let before = calls(&other, "Attach");
    read_all(&other.join("d"), 200);
    let first = calls(&other, "Attach") - before;
    assert!(first <= 12, "{first} calls for 200 files");
    read_all(&other.join("d"), 200);
    let again = calls(&other, "Attach") - before - first;
    assert_eq!(again, 0, "all are kept");
}

fn live_at(mount: &Path) {
    wait_until("the watch is live", || calls(mount, "Watch") > 1);
}

#[test]
fn an_open_sees_what_another_mount_wrote_to_a_kept_file_before_it_closed_it() {
    let Some(m) = Mounted::new() else { return };
    live(&m);
    make_files(&m.file("d"), 3);
    let other = m.further("other", "");
    live_at(&other);
    let (here, there) = (m.file("d/f000"), other.join("d/f000"));
    for round in 0..60_u8 {
        // Both have it kept; it is written by one of them in turn, in place or anew.
        let (writer, reader) = if round % 2 == 0 {
            (&here, &there)
        } else {
            (&there, &here)
        };
        assert_eq!(fs::read(writer).unwrap(), fs::read(reader).unwrap());
        let text = vec![round; 50 + usize::from(round % 3)];
        if round % 3 == 0 {
            let file = fs::File::options().write(true).open(writer).unwrap();
            file.write_all_at(&text, 0).unwrap();
            file.set_len(text.len() as u64).unwrap();
        } else {
            fs::write(writer, &text).unwrap();
        }
        assert_eq!(fs::read(reader).unwrap(), text, "round {round}");
        assert_eq!(fs::read(writer).unwrap(), text, "round {round}");
    }
}

#[test]
fn a_kept_file_follows_permissions_renames_and_growth() {
    let Some(m) = Mounted::new() else { return };
    make_files(&m.file("d"), 3);
    let other = m.further("other", "");
    live_at(&other);
    read_all(&other.join("d"), 3);
    read_all(&m.file("d"), 3);
    // It outgrows the metadata.
    let long = vec![7; 100_000];
    fs::write(m.file("d/f000"), &long).unwrap();
    assert_eq!(fs::read(other.join("d/f000")).unwrap(), long);
    // Another file has the name.
    fs::write(m.file("d/new"), b"new").unwrap();
    fs::rename(m.file("d/new"), m.file("d/f001")).unwrap();
    wait_until("the other mount sees the rename", || {
        fs::read(other.join("d/f001")).unwrap() == b"new"
    });
    // An open descriptor keeps the old one, also if it is read only now.
    let mut open = fs::File::open(other.join("d/f002")).unwrap();
    fs::remove_file(m.file("d/f002")).unwrap();
    wait_until("the other mount sees the removal", || {
        !other.join("d/f002").exists()
    });
    let mut read = Vec::new();
    open.seek(SeekFrom::Start(0)).unwrap();
    open.read_to_end(&mut read).unwrap();
    assert_eq!(read, bytes(2));
    fs::set_permissions(m.file("d/f001"), fs::Permissions::from_mode(0o600)).unwrap();
    wait_until("the other mount sees the mode", || {
        let mode = fs::metadata(other.join("d/f001"))
            .unwrap()
            .permissions()
            .mode();
        mode & 0o777 == 0o600
    });
}

#[test]
fn removed_files_that_are_kept_elsewhere_give_their_space_back() {
    let Some(m) = Mounted::new() else { return };
    make_files(&m.file("d"), 50);
    let other = m.further("other", "");
    live_at(&other);
    read_all(&other.join("d"), 50);
    let used = || {
        let space = rustix::fs::statvfs(&m.path).unwrap();
        space.f_files - space.f_ffree
    };
    let before = used();
    for number in 0..50 {
        fs::remove_file(m.file(&format!("d/f{number:03}"))).unwrap();
    }
    wait_until("the files are gone", || used() + 50 <= before);
}
