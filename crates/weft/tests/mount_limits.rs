//! The limits of a mount: long names and paths, unsupported calls, direct I/O, large holes.

mod mount_support;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use mount_support::{Mounted, sh, wait_until, weft};
use rustix::fs::{
    CWD, Mode, OFlags, RenameFlags, SeekFrom, copy_file_range, openat, renameat_with, seek,
};
use rustix::io::Errno;

fn open(path: &Path) -> fs::File {
    fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap()
}

#[test]
fn names_may_have_255_bytes_and_paths_4096() {
    let Some(m) = Mounted::new() else { return };
    // In bytes, not characters; any byte except zero and slash.
    for name in ["n".repeat(255), "ä".repeat(127)] {
        fs::write(m.file(&name), b"long").unwrap();
        assert_eq!(fs::read(m.file(&name)).unwrap(), b"long");
        fs::rename(m.file(&name), m.file("short")).unwrap();
        fs::rename(m.file("short"), m.file(&name)).unwrap();
        assert_eq!(
            fs::read_dir(&m.path)
                .unwrap()
                .next()
                .unwrap()
                .unwrap()
                .file_name(),
            name.as_str()
        );
        fs::remove_file(m.file(&name)).unwrap();
    }
    let long = m.file(&"n".repeat(256));
    let too_long = Some(Errno::NAMETOOLONG.raw_os_error());
    assert_eq!(fs::write(&long, b"").unwrap_err().raw_os_error(), too_long);
    assert_eq!(fs::create_dir(&long).unwrap_err().raw_os_error(), too_long);
    // A path of 4,095 bytes and a zero, and a tree that is deeper than any path.
    let mut path = m.path.clone();
    while path.as_os_str().len() + 201 < 4095 {
        path.push("d".repeat(200));
        fs::create_dir(&path).unwrap();
    }
    path.push("f".repeat(4095 - 1 - path.as_os_str().len()));
    assert_eq!(path.as_os_str().len(), 4095);
    fs::write(&path, b"deep").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"deep");
    let text = "t".repeat(4095);
    std::os::unix::fs::symlink(&text, m.file("link")).unwrap();
    assert_eq!(
        fs::read_link(m.file("link")).unwrap().to_str().unwrap(),
        text
    );
    sh(
        &m.path,
        "n=$(printf 'e%.0s' $(seq 200)); for i in $(seq 30); do mkdir $n; cd $n; done; echo deeper > f; cat f; \
         cd ..; test -d $n",
    );
    sh(&m.path, "rm -rf d* e* link; test -z \"$(ls -A)\"");
}

#[test]
fn unsupported_calls_fail_with_the_errno_that_programs_expect() {
    let Some(m) = Mounted::new() else { return };
    let unnamed = openat(CWD, &m.path, OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR);
    assert_eq!(
        unnamed.unwrap_err(),
        Errno::OPNOTSUPP,
        "programs fall back to a named file that they unlink"
    );
    fs::write(m.file("a"), b"a").unwrap();
    let whiteout = renameat_with(CWD, m.file("a"), CWD, m.file("b"), RenameFlags::WHITEOUT);
    assert_eq!(whiteout, Err(Errno::INVAL));
    assert_eq!(fs::read(m.file("a")).unwrap(), b"a");
    sh(
        &m.path,
        "! chattr +i a 2>/dev/null; mkdir d; ! ln d e 2>/dev/null; ! mv d d/d 2>/dev/null",
    );
}

#[test]
fn statfs_reports_plausible_sizes() {
    let Some(m) = Mounted::new() else { return };
    let before = rustix::fs::statvfs(&m.path).unwrap();
    assert_eq!(before.f_namemax, 255);
    assert!(
        before.f_frsize == 4096
            && before.f_bavail <= before.f_bfree
            && before.f_bfree <= before.f_blocks
    );
    assert!(before.f_blocks > 0 && before.f_ffree > 0 && before.f_files > before.f_ffree);
    let files = |stat: rustix::fs::StatVfs| stat.f_files - stat.f_ffree;
    let had = files(before);
    sh(&m.path, "touch a b c; sync -f a");
    mount_support::wait_until("three files more", || {
        files(rustix::fs::statvfs(&m.path).unwrap()) == had + 3
    });
}

#[test]
fn direct_reads_and_writes_have_any_size_and_agree_with_cached_ones() {
    let Some(m) = Mounted::new() else { return };
    let cached = open(&m.file("f"));
    let direct = fs::File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(m.file("f"))
        .unwrap();
    let mut expected = Vec::new();
    for (round, (offset, length)) in [
        (0, 4096),
        (4096, 1),
        (4097, 70_001),
        (3, 5),
        (100_000, 3_000_000),
        (1_000_001, 511),
    ]
    .into_iter()
    .enumerate()
    {
        let data = vec![round as u8 + 1; length];
        let (writer, reader) = if round % 2 == 0 {
            (&direct, &cached)
        } else {
            (&cached, &direct)
        };
        writer.write_all_at(&data, offset as u64).unwrap();
        expected.resize(expected.len().max(offset + length), 0);
        expected[offset..offset + length].copy_from_slice(&data);
        let mut seen = vec![9; expected.len() + 10];
        let count = read_all(reader, &mut seen);
        assert!(
            count == expected.len() && seen[..count] == expected,
            "round {round}"
        );
    }
    assert_eq!(direct.metadata().unwrap().len(), expected.len() as u64);
}

fn read_all(file: &fs::File, buffer: &mut [u8]) -> usize {
    let mut count = 0;
    loop {
        match file.read_at(&mut buffer[count..], count as u64).unwrap() {
            0 => return count,
            more => count += more,
        }
    }
}

#[test]
fn data_and_holes_of_a_sparse_file_are_where_they_were_written() {
    let Some(m) = Mounted::new() else { return };
    let file = open(&m.file("sparse"));
    let islands: Vec<u64> = [1_u64, 5, 6, 900, 4000].iter().map(|i| i << 20).collect();
    for at in &islands {
        file.write_all_at(&[7; 8192], *at).unwrap();
    }
    rustix::fs::ftruncate(&file, 10 << 30).unwrap();
    for synced in [false, true] {
        if synced {
            file.sync_all().unwrap();
        }
        let mut at = 0;
        for island in &islands {
            at = seek(&file, SeekFrom::Data(at)).unwrap();
            assert_eq!(at, *island);
            at = seek(&file, SeekFrom::Hole(at)).unwrap();
            assert_eq!(at, island + 8192);
        }
        assert_eq!(seek(&file, SeekFrom::Data(at)), Err(Errno::NXIO));
        assert_eq!(seek(&file, SeekFrom::Hole(9 << 30)), Ok(9 << 30));
        assert_eq!(seek(&file, SeekFrom::Hole(10 << 30)), Err(Errno::NXIO));
    }
    sh(
        &m.path,
        "truncate -s 20M sparse; cp --sparse=always sparse copy; cmp sparse copy",
    );
    assert_eq!(
        seek(open(&m.file("copy")), SeekFrom::Data(0)),
        Ok(islands[0])
    );
    assert_eq!(fs::metadata(m.file("copy")).unwrap().size(), 20 << 20);
}

/// Where a file has data.
fn data_of(file: &fs::File) -> Vec<(u64, u64)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Ok(start) = seek(file, SeekFrom::Data(at)) {
        at = seek(file, SeekFrom::Hole(start)).unwrap();
        found.push((start, at));
    }
    found
}

#[test]
fn a_small_file_that_gets_cells_keeps_its_holes() {
    for options in ["", "strict"] {
        let Some(m) = Mounted::with_options(options) else {
            return;
        };
        for small in [1, 4096, 5000, 8192, 16_384] {
            let file = open(&m.file(&format!("small-{small}")));
            rustix::fs::ftruncate(&file, small).unwrap();
            assert_eq!(data_of(&file), [], "{options} {small}");
            // Wait until the service has the data.
            file.sync_all().unwrap();
            drop(file);
            let file = open(&m.file(&format!("small-{small}")));
            file.write_all_at(&[7; 4096], 1 << 20).unwrap();
            file.sync_all().unwrap();
            let end = (1 << 20) + 4096;
            assert_eq!(data_of(&file), [(1 << 20, end)], "{options} {small}");
            let mut start = vec![1; 20_000];
            file.read_exact_at(&mut start, 0).unwrap();
            assert_eq!(start, vec![0; 20_000]);
        }
    }
}

#[test]
fn a_small_file_of_a_full_volume_stays_readable() {
    let Some(m) = Mounted::of_capacity("32M", "") else {
        return;
    };
    let content = vec![7; 4000];
    fs::write(m.file("small"), &content).unwrap();
    open(&m.file("small")).sync_all().unwrap();
    let fill = |name: &str, block: usize| {
        let file = open(&m.file(name));
        let mut at = 0;
        loop {
            let written = file.write_all_at(&vec![1; block], at);
            if written.and_then(|()| file.sync_data()).is_err() {
                return;
            }
            at += block as u64;
        }
    };
    // Fill both servers to the last block.
    fill("fill", 1 << 20);
    for n in 0..4 {
        fill(&format!("fill-{n}"), 4096);
    }
    for _ in 0..2 {
        let begun = std::time::Instant::now();
        let grown = fs::File::options()
            .append(true)
            .open(m.file("small"))
            .and_then(|mut file| {
                std::io::Write::write_all(&mut file, "x".repeat(20_000).as_bytes())?;
                file.sync_all()
            });
        let error = grown.unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(Errno::NOSPC.raw_os_error()),
            "{error}"
        );
        assert!(begun.elapsed().as_secs() < 4, "{:?}", begun.elapsed());
        let read = fs::read(m.file("small")).unwrap();
        assert!(read.starts_with(&content), "{} bytes", read.len());
    }
    m.unmount();
    m.mount("");
    assert!(fs::read(m.file("small")).unwrap().starts_with(&content));
    fs::remove_file(m.file("fill")).unwrap();
    wait_until("there is space again", || {
        fs::write(m.file("small"), vec![8; 20_000]).is_ok()
    });
    assert_eq!(fs::read(m.file("small")).unwrap(), vec![8; 20_000]);
}

#[test]
fn ranges_are_copied_between_mounts_and_to_a_local_disk() {
    let Some(m) = Mounted::new() else { return };
    let other = m.further("other", "");
    let data: Vec<u8> = (0..2_000_000_u32).map(|i| (i * 13 % 251) as u8).collect();
    let from = open(&m.file("from"));
    from.write_all_at(&data, 0).unwrap();
    for target in [other.join("to"), m.beside("local").join("to")] {
        let to = open(&target);
        let (mut at, mut there) = (100, 4_000);
        while at < data.len() as u64 {
            let moved = copy_file_range(&from, Some(&mut at), &to, Some(&mut there), data.len());
            // If the kernel does not support the call, programs read and write.
            match moved {
                Ok(0) => break,
                Ok(_) => {}
                Err(Errno::XDEV) => {
                    to.write_all_at(&data[at as usize..], there).unwrap();
                    break;
                }
                Err(e) => panic!("{e}"),
            }
        }
        drop(to);
        let copied = fs::read(&target).unwrap();
        assert!(
            copied.len() == 4_000 + data.len() - 100 && copied[4_000..] == data[100..],
            "{}",
            target.display()
        );
    }
    sh(
        &m.path,
        &format!("cp from {0}/again; cmp from {0}/again", other.display()),
    );
}

/// Runs `weft` on the volume of a mount. Returns its exit code and output.
fn command(m: &Mounted, line: &str) -> (Option<i32>, String, String) {
    let mut arguments = vec!["--volume", m.volume.to_str().unwrap()];
    arguments.extend(line.split_whitespace());
    let output = weft(&arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn used(m: &Mounted, line: &str) -> (u64, u64) {
    let (_, printed, said) = command(m, line);
    let rows: serde_json::Value = serde_json::from_str(&printed).expect(&said);
    let number = |name: &str| rows[0][name].as_u64().unwrap();
    (number("bytes"), number("files"))
}

#[test]
fn a_mount_keeps_quotas_and_shows_them() {
    const MIB: u64 = 1 << 20;
    let Some(m) = Mounted::new() else { return };
    sh(&m.path, "mkdir -p t/d; echo small > t/small");
    let set = command(&m, "quota set --tree /t --bytes 8MiB --files 6");
    assert_eq!(set, (Some(0), String::new(), String::new()));
    let space = || rustix::fs::statvfs(m.file("t/d")).unwrap();
    wait_until("the mount shows the quota of the tree", || {
        space().f_blocks * space().f_frsize == 8 * MIB
    });
    assert_eq!((space().f_files, space().f_ffree), (6, 3));
    assert!(rustix::fs::statvfs(&m.path).unwrap().f_blocks > space().f_blocks);
    // Growth ends at the limit, overwriting still works.
    let dd = "dd if=/dev/zero bs=256K conv=notrunc status=none";
    let full = sh(&m.path, &format!("! {dd} of=t/d/big count=200 2>&1"));
    assert!(full.contains("Disk quota exceeded"), "{full}");
    // Rejected writes may be visible for a moment.
    let mut size = 0;
    wait_until("the size is within the bound", || {
        size = fs::metadata(m.file("t/d/big")).unwrap().len();
        size > 0 && size + 6 <= 8 * MIB
    });
    let comes_to = |bytes, files| {
        let what = format!("{bytes} bytes and {files} files are used");
        wait_until(&what, || {
            used(&m, "quota show --tree /t --json") == (bytes, files)
        });
    };
    comes_to(size + 6, 4);
    sh(&m.path, &format!("{dd} of=t/d/big count=1 conv=fsync"));
    // Up to the last byte.
    sh(&m.path, "truncate -s 4M t/d/big");
    let rest = 4 * MIB - 6;
    let write_rest = format!("head -c {rest} /dev/zero > t/more");
    wait_until("there is space", || {
        std::process::Command::new("sh")
            .args(["-c", &write_rest])
            .current_dir(&m.path)
            .stderr(std::process::Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    });
    wait_until("no space is left", || space().f_bavail == 0);
    let refused = sh(&m.path, "! echo one byte too many 2>&1 > t/small2; ls t");
    assert!(!refused.contains("byte"), "{refused}");
    sh(&m.path, "rm -f t/small2 t/more; echo fits > t/small2");
    // Files are counted as well: d, big, small, small2 and the tree itself exist once the others
    // are closed.
    wait_until("the removed files are gone", || {
        used(&m, "quota show --tree /t --json").1 == 5
    });
    sh(&m.path, "touch t/six");
    let full = sh(&m.path, "! touch t/seven 2>&1; ! mkdir t/seven 2>&1");
    assert_eq!(full.matches("Disk quota exceeded").count(), 2, "{full}");
    // Only single files can leave the tree.
    sh(&m.path, "mv t/six six; mv t/d d; mv d/big six");
    wait_until("only t and two files are left", || {
        used(&m, "quota show --tree /t --json").1 == 3
    });
    let (code, shown, _) = command(&m, "quota show /t/small");
    assert!(
        code == Some(0) && shown.contains("/t") && shown.contains("8.0 MiB"),
        "{shown}"
    );
    command(&m, "quota set --user 4711 --files 0");
    sh(
        &m.path,
        "touch given; said=$(chown 4711 given 2>&1) && exit 9; grep -q 'quota exceeded' <<< \"$said\"",
    );
    let (code, _, said) = command(&m, "quota set --user 4711 --bytes many");
    assert!(code != Some(0) && said.contains("is not a size"), "{said}");
    let (code, _, said) = command(&m, "quota clear --tree /d");
    assert!(
        code == Some(1) && said.contains("no quota of its own"),
        "{said}"
    );
    command(&m, "quota set --tree /t --bytes 1");
    assert_eq!(
        command(&m, "quota show --tree /t").0,
        Some(1),
        "more is used than allowed"
    );
    assert_eq!(command(&m, "quota clear --tree /t").0, Some(0));
    let (_, listed, _) = command(&m, "quota");
    assert!(
        listed.contains("4711") && !listed.contains("/t"),
        "{listed}"
    );
    let (code, found, _) = command(&m, "fsck");
    assert_eq!(code, Some(0), "{found}");
}

/// A file with set-id bits, and writes to it by an unprivileged program.
#[test]
fn writing_a_program_clears_its_set_id_bits_and_capabilities() {
    for options in ["", "strict"] {
        let Some(m) = Mounted::with_options(options) else {
            return;
        };
        let as_user = "setpriv --reuid 1001 --regid 1001 --clear-groups";
        fs::set_permissions(&m.path, fs::Permissions::from_mode(0o777)).unwrap();
        let changes = [
            "fallocate -p -o 0 -l 4096 f",
            "fallocate -z -o 0 -l 4096 f",
            "fallocate -l 100000 f",
            "sh -c 'echo x >> f'",
            "dd if=/dev/zero of=f bs=4096 count=1 conv=notrunc oflag=direct status=none",
            "dd if=/dev/zero of=f bs=100 count=1 conv=notrunc status=none",
            "truncate -s 10 f",
            #[cfg(target_arch = "x86_64")]
            "perl -e 'open(I,\"<\",\"src\");open(O,\"+<\",\"f\");\
             syscall(326,fileno(I),0,fileno(O),0,17000,0)==17000 or die'",
        ];
        // cap_net_raw+ep
        let capability: Vec<u8> = [0x0200_0001_u32, 1 << 13, 0, 0, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let name = "security.capability";
        for change in changes {
            fs::write(m.file("src"), vec![7; 17_000]).unwrap();
            fs::write(m.file("f"), vec![1; 17_000]).unwrap();
            fs::set_permissions(m.file("f"), fs::Permissions::from_mode(0o6777)).unwrap();
            sh(&m.path, &format!("chmod 644 src; {as_user} {change}"));
            let mode = fs::metadata(m.file("f")).unwrap().mode() & 0o7777;
            assert_eq!(mode, 0o777, "{options} {change}");
            rustix::fs::setxattr(
                m.file("f"),
                name,
                &capability,
                rustix::fs::XattrFlags::empty(),
            )
            .unwrap();
            sh(&m.path, &format!("{as_user} {change}"));
            let found = rustix::fs::getxattr(m.file("f"), name, &mut [0_u8; 64]);
            assert_eq!(found, Err(Errno::NODATA), "{options} {change}");
            fs::remove_file(m.file("f")).unwrap();
        }
    }
}

#[test]
fn an_open_for_reading_can_truncate_and_unsupported_attributes_are_refused() {
    let Some(m) = Mounted::new() else { return };
    for size in [1, 20_000] {
        for extra in [OFlags::empty(), OFlags::CREATE] {
            fs::write(m.file("f"), vec![1; size]).unwrap();
            let how = OFlags::RDONLY | OFlags::TRUNC | extra;
            drop(openat(CWD, m.file("f"), how, Mode::RUSR).unwrap());
            assert_eq!(fs::metadata(m.file("f")).unwrap().len(), 0);
        }
    }
    let set = |name: &str, flags| rustix::fs::setxattr(m.file("f"), name, b"v", flags);
    let neither = rustix::fs::XattrFlags::CREATE | rustix::fs::XattrFlags::REPLACE;
    assert_eq!(set("user.a", neither), Err(Errno::NODATA));
    set("user.a", rustix::fs::XattrFlags::CREATE).unwrap();
    assert_eq!(set("user.a", neither), Err(Errno::EXIST));
}

/// The descriptor that wrote is closed first, so the last one closed does not know the length of
/// the file.
#[test]
fn a_file_is_charged_for_the_writes_of_every_descriptor() {
    let Some(m) = Mounted::new() else { return };
    fs::create_dir(m.file("d")).unwrap();
    let volume = m.volume.to_str().unwrap();
    let quota = |arguments: &[&str]| {
        let all = [&["--volume", volume, "quota"], arguments].concat();
        mount_support::weft_ok(&all)
    };
    quota(&["set", "--tree", "/d", "--bytes", "4M"]);
    let (mut written, mut refused) = (0, false);
    for n in 0..10 {
        let path = m.file(&format!("d/f{n}"));
        fs::write(&path, [0; 100]).unwrap();
        let (a, b) = (open(&path), open(&path));
        refused = b
            .write_all_at(&vec![1; 2_000_000], 0)
            .and_then(|()| b.sync_all())
            .is_err();
        if refused {
            break;
        }
        written += 2_000_000;
        drop(b);
        drop(a);
        wait_until("the file is charged", || {
            quota(&["show", "/d", "--json"]).contains(&written.to_string())
        });
    }
    assert!(
        refused && written == 4_000_000,
        "{written} bytes are beyond the bound of 4 MiB"
    );
}
