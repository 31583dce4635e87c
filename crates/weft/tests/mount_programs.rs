//! Ordinary programs on a mounted volume.

mod mount_support;

use std::fs;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};

use mount_support::{Mounted, sh, weft_ok};

#[test]
fn trees_are_copied_moved_listed_and_removed() {
    let Some(m) = Mounted::new() else { return };
    let tree = m.beside("tree");
    sh(
        &tree,
        "mkdir -p a/b/c empty; for i in $(seq 300); do echo $i > a/b/f$i; done; ln -s b/f1 a/link; \
               ln a/b/f2 a/hard; head -c 3000000 /dev/urandom > a/big; mkfifo a/fifo; chmod 640 a/b/f3; \
               touch -d '2001-02-03 04:05:06.789' a/b/f4",
    );
    sh(&m.path, &format!("cp -a {}/. t", tree.display()));
    sh(
        &m.path,
        &format!(
            "diff -r --no-dereference {}/a/b t/a/b; cmp {0}/a/big t/a/big",
            tree.display()
        ),
    );
    assert_eq!(sh(&m.path, "readlink t/a/link"), "b/f1\n");
    assert!(
        fs::metadata(m.file("t/a/fifo"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    assert_eq!(
        fs::metadata(m.file("t/a/b/f3")).unwrap().mode() & 0o7777,
        0o640
    );
    assert_eq!(fs::metadata(m.file("t/a/hard")).unwrap().nlink(), 2);
    assert_eq!(
        fs::metadata(m.file("t/a/b/f4")).unwrap().mtime_nsec(),
        789_000_000
    );
    sh(
        &m.path,
        "tar cf - t | (mkdir u; cd u; tar xf -); diff -r --no-dereference t/a/b u/t/a/b",
    );
    assert_eq!(sh(&m.path, "find t -type f | wc -l").trim(), "302");
    sh(
        &m.path,
        "mv t moved; mv moved/a/b/f5 top; test -e top; test ! -e t",
    );
    sh(&m.path, "rm -rf moved u top");
    assert_eq!(fs::read_dir(&m.path).unwrap().count(), 0);
    m.unmount();
}

#[test]
fn written_data_is_visible_after_unmounting_and_to_the_command_line() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("small"), b"hello").unwrap();
    let data: Vec<u8> = (0..5_000_001_u32).map(|i| (i * 7 % 251) as u8).collect();
    fs::write(m.file("large"), &data).unwrap();
    m.unmount();
    assert!(fs::read_dir(&m.path).unwrap().next().is_none());
    let volume = m.volume.to_str().unwrap();
    assert_eq!(weft_ok(&["--volume", volume, "cat", "/small"]), "hello");
    m.mount("");
    assert_eq!(fs::read(m.file("large")).unwrap(), data);
}

#[test]
fn an_unlinked_open_file_keeps_working() {
    let Some(m) = Mounted::new() else { return };
    let file = fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(m.file("x"))
        .unwrap();
    file.write_all_at(b"before", 0).unwrap();
    fs::remove_file(m.file("x")).unwrap();
    file.write_all_at(b"after", 100_000).unwrap();
    let mut buffer = [0; 5];
    file.read_exact_at(&mut buffer, 100_000).unwrap();
    assert_eq!(&buffer, b"after");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(file.metadata().unwrap().len(), 100_005);
}

#[test]
fn renameat2_flags_exchange_replace_and_keep_names() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("a"), b"A").unwrap();
    fs::write(m.file("b"), b"B").unwrap();
    let rename = |flags| renameat_with(CWD, m.file("a"), CWD, m.file("b"), flags);
    assert_eq!(
        rename(RenameFlags::NOREPLACE),
        Err(rustix::io::Errno::EXIST)
    );
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!(
        (
            fs::read(m.file("a")).unwrap(),
            fs::read(m.file("b")).unwrap()
        ),
        (b"B".to_vec(), b"A".to_vec())
    );
    rename(RenameFlags::empty()).unwrap();
    assert_eq!(fs::read(m.file("b")).unwrap(), b"B");
    assert!(!m.file("a").exists());
}

#[test]
fn chmod_chown_touch_and_truncate_set_attributes() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("f"), b"0123456789").unwrap();
    sh(
        &m.path,
        "chmod 4711 f; chown 12:34 f; touch -d @1000000000.5 f; truncate -s 4 f",
    );
    let stat = fs::metadata(m.file("f")).unwrap();
    assert_eq!((stat.uid(), stat.gid(), stat.len()), (12, 34, 4));
    assert_eq!(fs::read(m.file("f")).unwrap(), b"0123");
    sh(&m.path, "touch -d @1000000000.5 f");
    assert_eq!(fs::metadata(m.file("f")).unwrap().mtime(), 1_000_000_000);
    sh(
        &m.path,
        "truncate -s 100000 f; test $(stat -c %s f) = 100000; mknod null c 1 3; echo x > null",
    );
    assert_eq!(
        fs::metadata(m.file("null")).unwrap().rdev(),
        rustix::fs::makedev(1, 3)
    );
    symlink("nowhere", m.file("dangling")).unwrap();
    assert!(fs::metadata(m.file("dangling")).is_err());
}

#[test]
fn a_write_by_another_user_clears_set_id_bits() {
    let Some(m) = Mounted::new() else { return };
    fs::write(m.file("f"), b"x").unwrap();
    fs::set_permissions(m.file("f"), fs::Permissions::from_mode(0o6777)).unwrap();
    sh(
        &m.path,
        "chmod 777 .; setpriv --reuid 1000 --regid 1000 --clear-groups bash -c 'echo y >> f'",
    );
    assert_eq!(fs::metadata(m.file("f")).unwrap().mode() & 0o7777, 0o777);
}

#[test]
fn a_large_directory_is_listed_completely_while_it_is_emptied() {
    let Some(m) = Mounted::new() else { return };
    sh(
        &m.path,
        "mkdir d; cd d; for i in $(seq 2500); do : > $i; done",
    );
    let mut names: Vec<u32> = fs::read_dir(m.file("d"))
        .unwrap()
        .map(|e| e.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, (1..=2500).collect::<Vec<_>>());
    // Every listed name is either replaced by another or kept.
    let mut stayed = Vec::new();
    for entry in fs::read_dir(m.file("d")).unwrap() {
        let (path, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
        match name.to_str().unwrap().parse::<u32>() {
            Ok(number) if number % 3 == 0 => stayed.push(number),
            Ok(number) => {
                fs::remove_file(path).unwrap();
                fs::write(m.file(&format!("d/{number}-came")), b"").unwrap();
            }
            Err(_) => {}
        }
    }
    stayed.sort_unstable();
    assert_eq!(
        stayed,
        (1..=2500).filter(|n| n % 3 == 0).collect::<Vec<_>>()
    );
    assert_eq!(fs::read_dir(m.file("d")).unwrap().count(), 2500);
    for entry in fs::read_dir(m.file("d")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(fs::read_dir(m.file("d")).unwrap().count(), 0);
}

#[test]
fn user_attributes_are_kept() {
    let Some(m) = Mounted::new() else { return };
    sh(
        &m.path,
        "echo x > f; setfattr -n user.colour -v blue f; test $(getfattr --only-values -n user.colour f) = blue; \
                 setfattr -x user.colour f; ! getfattr -n user.colour f 2>/dev/null",
    );
}

#[test]
fn the_layout_of_a_directory_is_set_and_read_as_text() {
    let Some(m) = Mounted::new() else { return };
    sh(
        &m.path,
        "mkdir d; setfattr -n user.weft.layout -v 'cells=3 bsu=4KiB' d; echo x > d/f",
    );
    let layout = sh(&m.path, "getfattr --only-values -n user.weft.layout d/f");
    assert!(layout.starts_with("cells=3 bsu=4KiB chunk="), "{layout}");
    assert!(
        !sh(&m.path, "getfattr d/f").contains("weft"),
        "a copy would carry it along"
    );
    sh(
        &m.path,
        "! setfattr -n user.weft.layout -v 'rows=3' d 2>/dev/null",
    );
}

#[test]
fn views_are_files_under_a_hidden_directory() {
    let Some(m) = Mounted::new() else { return };
    sh(
        &m.path,
        "mkdir d; setfattr -n user.weft.layout -v 'cells=4 bsu=4' d; printf '0000111122223333444455556666' > d/f",
    );
    assert_eq!(sh(&m.path, "cat d/.weft/views/f/cell=2"), "22226666");
    assert_eq!(
        sh(
            &m.path,
            "dd if=d/.weft/views/f/subfile=1,1,1,4,1 status=none"
        ),
        "11115555"
    );
    assert_eq!(sh(&m.path, "stat -c %s d/.weft/views/f/cell=2"), "8\n");
    sh(
        &m.path,
        "printf 'XXXX' | dd of=d/.weft/views/f/cell=1 conv=notrunc status=none",
    );
    assert_eq!(sh(&m.path, "cat d/f"), "0000XXXX22223333444455556666");
    assert_eq!(sh(&m.path, "ls -A d"), "f\n");
    sh(
        &m.path,
        "! cat d/.weft/views/f/cell=9 2>/dev/null; ! touch d/.weft/x 2>/dev/null; ! mkdir .weft 2>/dev/null",
    );
}

#[test]
fn a_mount_shows_partitions_and_forks_as_views() {
    let Some(m) = Mounted::new() else { return };
    sh(
        &m.path,
        "mkdir d; setfattr -n user.weft.layout -v 'cells=2 bsu=4' d; printf 'abcdefghijklmnop' > d/f",
    );
    // From byte 1 on, 2 of each 4.
    let partition = "d/.weft/views/f/partition=1,2,4";
    assert_eq!(sh(&m.path, &format!("cat {partition}")), "bcfgjkno");
    sh(
        &m.path,
        &format!("printf 'XY' | dd of={partition} conv=notrunc status=none"),
    );
    assert_eq!(sh(&m.path, "cat d/f"), "aXYdefghijklmnop");
    let fork = "d/.weft/views/f/cell=1@notes";
    sh(
        &m.path,
        &format!("printf 'beside' | dd of={fork} conv=notrunc status=none"),
    );
    assert_eq!(sh(&m.path, &format!("cat {fork}")), "beside");
    assert_eq!(sh(&m.path, "cat d/f"), "aXYdefghijklmnop");
}

#[test]
fn owners_times_and_special_files_survive_cp_and_tar() {
    let Some(m) = Mounted::new() else { return };
    // Steps that need root are skipped otherwise.
    sh(
        &m.path,
        "mkdir a; cd a; printf x > f; mkfifo p; ln -s f s; ln f h
         python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"k\")'
         if [ $(id -u) = 0 ]; then mknod n c 1 3; chown 123:456 f p; fi
         chmod 2751 f; touch -d '2001-02-03 04:05:06.123456789' f p",
    );
    let told = |directory: &str| {
        let list = "find . -mindepth 1 ! -type d -printf '%p %y %m %U %G %n %T@ %l\\n' | sort; stat -c '%n %t %T' * | sort";
        sh(&m.path, &format!("cd {directory}; {list}"))
    };
    sh(
        &m.path,
        "cp -a a b; tar --format=posix -cf t.tar --exclude=k -C a .; mkdir c; tar -xpf t.tar -C c",
    );
    assert_eq!(told("b"), told("a"));
    sh(&m.path, "rm a/k b/k");
    assert_eq!(told("c"), told("a"));
    assert!(
        told("a").contains("06.123456789") || told("a").contains(".1234567890"),
        "{}",
        told("a")
    );
}

#[test]
fn bytes_pass_through_a_fifo_of_a_mount() {
    let Some(m) = Mounted::new() else { return };
    let passed = sh(
        &m.path,
        "mkfifo p; (seq 1 20000 > p) & cat p | tail -1; wait; stat -c %s p",
    );
    assert_eq!(passed, "20000\n0\n");
}

#[test]
fn preallocation_requests_space_only_beyond_the_end_of_the_file() {
    let Some(m) = Mounted::new() else { return };
    let space = rustix::fs::statvfs(&m.path).unwrap();
    let more = space.f_bavail * space.f_frsize + (1 << 30);
    let file = fs::File::create(m.file("f")).unwrap();
    let allocate =
        |at, length| rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), at, length);
    let full = Err(rustix::io::Errno::NOSPC);
    assert_eq!(allocate(0, more), full);
    file.set_len(more).unwrap();
    assert_eq!(allocate(0, more), Ok(()));
    assert_eq!(allocate(more - 5, 4096), Ok(()));
    assert_eq!(allocate(more, more), full);
    assert_eq!(file.metadata().unwrap().len(), more + 4091);
}

#[test]
fn holes_are_found_and_space_is_preallocated() {
    use rustix::fs::{FallocateFlags, SeekFrom};
    let Some(m) = Mounted::new() else { return };
    let file = fs::File::create(m.file("f")).unwrap();
    file.write_all_at(&[1; 4096], 8 << 20).unwrap();
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)).unwrap(), 8 << 20);
    assert_eq!(
        rustix::fs::seek(&file, SeekFrom::Hole(8 << 20)).unwrap(),
        (8 << 20) + 4096
    );
    assert_eq!(
        rustix::fs::seek(&file, SeekFrom::Data(9 << 20)),
        Err(rustix::io::Errno::NXIO)
    );
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 10 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 10 << 20);
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 20 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 10 << 20);
}

#[test]
fn requests_are_a_mebibyte_long() {
    let Some(m) = Mounted::new() else { return };
    let log = fs::read_dir(m.volume.join("log")).unwrap().flatten();
    let log = log
        .map(|e| e.path())
        .find(|p| p.to_str().unwrap().contains("mount-"))
        .unwrap();
    let text = fs::read_to_string(log).unwrap();
    let limit = fs::read_to_string("/proc/sys/fs/fuse/max_pages_limit").unwrap_or("256".into());
    let expected = limit.trim().parse::<u32>().unwrap().min(1024) * 4096;
    assert!(text.contains(&format!("max_write={expected}")), "{text}");
}

#[test]
fn two_mounts_agree_after_close_and_open() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    for round in 0..20_u32 {
        let text = format!("round {round} {}", "x".repeat(round as usize * 700));
        let (from, to) = if round % 2 == 0 {
            (&m.path, &other)
        } else {
            (&other, &m.path)
        };
        fs::write(from.join("f"), &text).unwrap();
        assert_eq!(fs::read_to_string(to.join("f")).unwrap(), text);
    }
}

#[test]
fn a_time_set_explicitly_survives_the_close() {
    use rustix::fs::{Timespec, Timestamps, futimens};
    let Some(m) = Mounted::new() else { return };
    let old = Timespec {
        tv_sec: 1_000_000_000,
        tv_nsec: 7,
    };
    let times = Timestamps {
        last_access: old,
        last_modification: old,
    };
    for (name, length) in [("small", 4), ("large", 3_000_000)] {
        let file = fs::File::create(m.file(name)).unwrap();
        file.write_all_at(&vec![1; length], 0).unwrap();
        futimens(&file, &times).unwrap();
        drop(file);
        // Close does not wait, and the kernel caches attributes for a second.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let stat = fs::metadata(m.file(name)).unwrap();
        assert_eq!(
            (stat.mtime(), stat.mtime_nsec()),
            (1_000_000_000, 7),
            "{name}"
        );
        let file = fs::File::options().write(true).open(m.file(name)).unwrap();
        file.write_all_at(b"x", 0).unwrap();
        drop(file);
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let stat = fs::metadata(m.file(name)).unwrap();
        assert!(stat.mtime() > 1_000_000_000, "{name} was written after it");
    }
    sh(
        &m.path,
        "mkdir a b; cp small large a; touch -d @1000000001.5 a/small a/large a; tar --format=posix -cf - a | tar xf - -C b; \
         sleep 1.5; test \"$(stat -c %.9Y b/a/small b/a/large b/a | sort -u)\" = 1000000001.500000000",
    );
}
