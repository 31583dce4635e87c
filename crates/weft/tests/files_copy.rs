//! Trees copied into the volume and back: every kind of entry survives unchanged.

mod files_support;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use files_support::{Volume, bytes};
use rustix::fs::{CWD, FileType, Mode, SeekFrom, XattrFlags, mknodat, setxattr};
use rustix::process::{Pid, Signal, kill_process};

/// The compared attributes of an entry.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    kind: String,
    mode: u32,
    modified: Option<(i64, i64)>,
    size: u64,
    content: String,
    /// The first name of the same file.
    same_as: PathBuf,
    attribute: Option<Vec<u8>>,
}

fn scan(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut entries = BTreeMap::new();
    let mut first_names = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        let m = fs::symlink_metadata(&path).unwrap();
        let kind = m.file_type();
        let name = path.strip_prefix(root).unwrap().to_owned();
        let content = if kind.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else if kind.is_file() {
            blake3::hash(&fs::read(&path).unwrap()).to_string()
        } else {
            String::new()
        };
        if kind.is_dir() {
            let mut names: Vec<_> = fs::read_dir(&path)
                .unwrap()
                .map(|e| e.unwrap().path())
                .collect();
            names.sort();
            todo.extend(names.into_iter().rev());
        }
        let same_as = first_names
            .entry(m.ino())
            .or_insert_with(|| name.clone())
            .clone();
        let mut value = vec![0; 1000];
        let attribute = rustix::fs::lgetxattr(&path, "user.note", &mut value[..]).ok();
        let entry = Entry {
            kind: format!("{kind:?}"),
            mode: m.mode(),
            modified: Some((m.mtime(), m.mtime_nsec())),
            size: if kind.is_dir() { 0 } else { m.len() },
            content,
            same_as,
            attribute: attribute.map(|length| value[..length].to_vec()),
        };
        entries.insert(name, entry);
    }
    entries
}

/// A tree of awkward entries.
fn nasty(root: &Path) {
    fs::create_dir_all(root.join("empty/deeper/still")).unwrap();
    for (i, name) in [
        &b"plain"[..],
        "äöü 線 🧵.txt".as_bytes(),
        b"new\nline",
        b"back\\slash \"quoted\" 'name' $HOME *?[",
        b"-rf",
        b"\xff\xfe not text \x80",
        &[b'n'; 255],
        b" ",
    ]
    .into_iter()
    .enumerate()
    {
        let path = root.join(OsStr::from_bytes(name));
        fs::write(&path, bytes(i as u64, i * 1000)).unwrap();
        let mode = [0o644, 0o600, 0o755, 0o444, 0o4755, 0o2711, 0o640, 0o777][i];
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    for (name, size) in [
        ("one", 1),
        ("k256", 256 << 10),
        ("k257", 257 << 10),
        ("m9", (9 << 20) + 5),
    ] {
        fs::write(root.join(name), bytes(size as u64, size)).unwrap();
    }
    fs::write(root.join("zeros"), vec![0; 3 << 20]).unwrap();
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(b"middle", 20 << 20).unwrap();
    sparse.set_len(50 << 20).unwrap();
    fs::create_dir(root.join("dir")).unwrap();
    fs::hard_link(root.join("plain"), root.join("dir/hard")).unwrap();
    fs::hard_link(root.join("m9"), root.join("dir/hard-m9")).unwrap();
    symlink("../plain", root.join("dir/link")).unwrap();
    symlink("nowhere/\u{fffd}\n", root.join("dir/dangling")).unwrap();
    symlink(".", root.join("dir/loop")).unwrap();
    mknodat(
        CWD,
        root.join("dir/fifo"),
        FileType::Fifo,
        Mode::from_raw_mode(0o610),
        0,
    )
    .unwrap();
    // Not every file system supports these.
    let _ = setxattr(
        root.join("plain"),
        "user.note",
        b"a note \0 of bytes",
        XattrFlags::empty(),
    );
    let _ = setxattr(
        root.join("dir"),
        "user.note",
        b"on a directory",
        XattrFlags::empty(),
    );
    fs::create_dir(root.join("locked")).unwrap();
    fs::write(root.join("locked/inside"), b"inside").unwrap();
    // Times that cannot occur by chance; directories last.
    let entries = scan(root);
    for (i, path) in entries.keys().rev().enumerate() {
        let path = root.join(path);
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_file() || kind.is_dir() {
            let time =
                SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000 + i as u64, 123_456_789);
            File::open(&path).unwrap().set_modified(time).unwrap();
        }
    }
    fs::set_permissions(root.join("locked"), fs::Permissions::from_mode(0o500)).unwrap();
}

fn cp(volume: &Volume, args: &[&str], from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) {
    let mut line: Vec<&OsStr> = vec!["cp".as_ref()];
    line.extend(args.iter().map(OsStr::new));
    line.extend([from.as_ref(), to.as_ref()]);
    volume.run(line);
}

#[test]
fn a_tree_of_awkward_entries_survives_a_copy_in_and_out() {
    let volume = Volume::up();
    let (source, back) = (volume.path("source"), volume.path("back"));
    fs::create_dir(&source).unwrap();
    nasty(&source);
    let expected = scan(&source);
    assert!(
        expected
            .values()
            .any(|e| e.kind.contains("fifo") || e.mode & 0o170_000 == 0o010_000)
    );

    cp(&volume, &["-r"], &source, "weft:/tree");
    cp(&volume, &["-r"], "weft:/tree", &back);
    assert_eq!(scan(&back), expected);
    assert!(
        back.join("dir/fifo")
            .symlink_metadata()
            .unwrap()
            .file_type()
            .is_fifo()
    );

    // Within the volume, and again over the existing copy.
    cp(&volume, &["-a"], "weft:/tree", "weft:/second");
    cp(&volume, &["-a"], "weft:/tree/.", "weft:/second");
    cp(&volume, &["-a"], "weft:/second/.", &back);
    assert_eq!(scan(&back), expected);

    // Holes are holes again.
    let blocks = fs::metadata(back.join("sparse")).unwrap().blocks();
    assert!(blocks * 512 < 8 << 20, "{blocks} blocks");
    let stored = volume.json("stat --json /tree/sparse")[0]["stored"]
        .as_u64()
        .unwrap();
    assert!(stored < 1 << 20, "{stored} bytes on the servers");
}

#[test]
fn a_hole_of_two_tebibytes_costs_nothing_to_copy_in() {
    let volume = Volume::up();
    let path = volume.path("far");
    let file = File::create(&path).unwrap();
    file.write_all_at(b"near", 0).unwrap();
    file.write_all_at(b"far away", 1 << 41).unwrap();
    cp(&volume, &[], &path, "weft:/far");
    let stat = &volume.json("stat --json /far")[0];
    assert_eq!(stat["size"], (1_u64 << 41) + 8);
    assert!(stat["stored"].as_u64().unwrap() < 1 << 20);
    assert_eq!(
        volume.text(&format!("cat /far --offset {}", 1_u64 << 41)),
        "far away"
    );
    assert_eq!(volume.text("cat /far --length 4"), "near");
}

/// The blocks of a file that are not zero, found without reading its holes.
fn blocks_with_data(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = File::open(path).unwrap();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Ok(start) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
        at = rustix::fs::seek(&file, SeekFrom::Hole(start)).unwrap();
        for block in start / 4096..at.div_ceil(4096) {
            let mut bytes = vec![0; 4096];
            let got = file.read_at(&mut bytes, block * 4096).unwrap();
            if bytes.iter().any(|b| *b != 0) {
                found.push((block, bytes[..got].to_vec()));
            }
        }
    }
    found
}

#[test]
fn a_copy_moves_the_data_of_a_sparse_file_and_none_of_its_holes() {
    let volume = Volume::up();
    let (path, back) = (volume.path("sparse"), volume.path("back"));
    let file = File::create(&path).unwrap();
    file.write_all_at(&bytes(1, 100), 0).unwrap();
    file.write_all_at(&bytes(2, 3_000_000), (1 << 30) + 5)
        .unwrap();
    file.write_all_at(&bytes(3, 70_000), 1 << 41).unwrap();
    file.set_len(3 << 41).unwrap();
    let begun = std::time::Instant::now();
    cp(&volume, &[], &path, "weft:/sparse");
    cp(&volume, &[], "weft:/sparse", "weft:/again");
    cp(&volume, &[], "weft:/again", &back);
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(fs::metadata(&back).unwrap().len(), 3 << 41);
    assert!(blocks_with_data(&back) == blocks_with_data(&path));
    let taken = fs::metadata(&back).unwrap().blocks() * 512;
    assert!(taken < 4 << 20, "{taken} bytes");
    for name in ["sparse", "again"] {
        let stat = &volume.json(&format!("stat --json /{name}"))[0];
        assert_eq!(stat["size"], 3_u64 << 41);
        let stored = stat["stored"].as_u64().unwrap();
        assert!(stored < 4 << 20, "{name}: {stored} bytes");
    }
}

#[test]
fn a_file_that_is_one_hole_is_not_read() {
    let volume = Volume::up();
    volume.text("truncate -s 2T /a");
    let back = volume.path("back");
    cp(&volume, &[], "weft:/a", &back);
    let back = fs::metadata(&back).unwrap();
    assert_eq!((back.len(), back.blocks()), (2 << 40, 0));
}

#[test]
fn a_file_truncated_while_it_is_copied_is_a_failure() {
    let volume = Volume::up();
    let tree = volume.path("tree");
    fs::create_dir(&tree).unwrap();
    let big = tree.join("big");
    fs::write(&big, bytes(1, 256 << 20)).unwrap();
    fs::write(tree.join("fine"), b"fine").unwrap();
    volume.text("mkdir /tree");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let child = runtime.block_on(async {
        let options = weft_client::ConnectOptions::from_folder(volume.path("volume")).unwrap();
        let client = weft_client::Volume::connect(options).await.unwrap();
        let mut command = volume.command(["cp", "-r"]);
        let command = command.arg(&tree).arg("weft:/");
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        // The copy has opened the file, but is still near its start.
        while client.stat("/tree/big").await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        child
    });
    let process = Pid::from_child(&child);
    kill_process(process, Signal::STOP).unwrap();
    File::options()
        .write(true)
        .open(&big)
        .unwrap()
        .set_len(1000)
        .unwrap();
    kill_process(process, Signal::CONT).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("/big was truncated from ") && error.contains("copy it again"),
        "{error}"
    );
    assert_eq!(volume.text("cat /tree/fine"), "fine");
}

#[test]
fn files_of_proc_and_sys_are_copied_to_their_end() {
    let volume = Volume::up();
    let copied = |from: &Path, to: &str| {
        let summary: serde_json::Value = serde_json::from_slice(&volume.run([
            OsStr::new("cp"),
            OsStr::new("--json"),
            from.as_os_str(),
            OsStr::new(&format!("weft:{to}")),
        ]))
        .unwrap();
        assert_eq!(summary["failures"], 0, "{summary}");
        let expected = fs::read(from).unwrap();
        assert_eq!(volume.run(["cat", to]), expected, "{}", from.display());
        assert_eq!(summary["bytes"], expected.len());
    };
    // States 0 bytes.
    copied(Path::new("/proc/version"), "/version");
    // States the size of a page, if there is a /sys.
    let page = Path::new("/sys/kernel/mm/transparent_hugepage/enabled");
    if fs::read(page).is_ok() {
        copied(page, "/page");
    }
    let refused = volume.fails("import /proc/version /imported", 1);
    assert!(refused.contains("weft put"), "{refused}");
    let empty = volume.path("empty");
    fs::write(&empty, b"").unwrap();
    copied(&empty, "/empty");
}

#[test]
fn targets_mean_the_same_as_for_cp() {
    let volume = Volume::up();
    let (a, b) = (volume.path("a"), volume.path("b"));
    fs::write(&a, b"a").unwrap();
    fs::write(&b, b"b").unwrap();
    cp(&volume, &[], &a, "weft:/new");
    volume.text("mkdir /d");
    volume.run([
        OsStr::new("cp"),
        a.as_os_str(),
        b.as_os_str(),
        OsStr::new("weft:/d"),
    ]);
    assert_eq!(volume.text("cat /new /d/a /d/b"), "aab");
    cp(&volume, &[], &b, "weft:/new");
    cp(&volume, &["-n"], &a, "weft:/new");
    assert_eq!(volume.text("cat /new"), "b");
    let summary: serde_json::Value =
        serde_json::from_slice(&volume.run(["cp", "-r", "--json", "weft:/d", "weft:/e"])).unwrap();
    assert_eq!(
        (&summary["files"], &summary["directories"]),
        (&2.into(), &1.into())
    );
    assert_eq!(
        (&summary["bytes"], &summary["failures"]),
        (&2.into(), &0.into())
    );
}

#[test]
fn failures_are_reported_and_the_rest_is_copied() {
    let volume = Volume::up();
    let tree = volume.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("fine"), b"fine").unwrap();
    let line = |from: &str, to: &str| format!("cp -r {from} {to}");
    let source = tree.to_str().unwrap();
    let error = volume.fails(&line(&format!("{source} /nonexistent"), "weft:/"), 1);
    assert!(error.contains("/nonexistent: no such file"), "{error}");
    assert_eq!(volume.text("cat /tree/fine"), "fine");
    assert!(
        volume
            .fails(&format!("cp {source} weft:/x"), 1)
            .contains("copy it with -r")
    );
    assert!(
        volume
            .fails("cp weft:/tree/fine weft:/tree/fine", 1)
            .contains("the same file")
    );
    assert!(
        volume
            .fails("cp -r weft:/tree weft:/tree/inside", 1)
            .contains("into itself")
    );
    assert!(
        volume
            .fails("cp weft:/tree/fine weft:/missing/x", 1)
            .contains("no such file")
    );
    assert_eq!(volume.text("cat /tree/fine"), "fine");
    // A file does not replace a directory, nor a directory a file.
    volume.text("mkdir -p /t2/fine");
    assert!(
        volume
            .fails(&format!("cp -r {source}/. weft:/t2"), 1)
            .contains("directory")
    );
    volume.feed("put /t3", b"");
    assert!(
        volume
            .fails(&format!("cp -r {source}/. weft:/t3"), 1)
            .contains("not a directory")
    );
}

#[test]
fn a_copy_without_space_leaves_no_partial_file() {
    let volume = Volume::up();
    volume.text("mkdir /from");
    volume.feed("put /from/big", &bytes(1, 9 << 20));
    // Copy out of the volume, to a full device.
    let said = volume.fails("cp weft:/from/big /dev/full", 1);
    assert!(
        said.contains("/from/big") && said.contains("No space left"),
        "{said}"
    );
    assert!(
        said.contains("files that could not be copied for lack of space: 1; free some space"),
        "{said}"
    );
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root sets quotas");
        return;
    }
    // Copy into a tree with a small quota, as a new file and over an existing one.
    volume.text("mkdir /t");
    volume.text("quota set --tree /t --bytes 2MiB");
    let said = volume.fails("cp weft:/from/big weft:/t/new", 1);
    assert!(
        said.contains("weft:/t/new (no partial file is left)"),
        "{said}"
    );
    volume.fails("stat /t/new", 1);
    volume.feed("put /t/old", b"what was there");
    let said = volume.fails("cp weft:/from/big weft:/t/old", 1);
    assert!(said.contains("is empty now"), "{said}");
    assert_eq!(volume.json("stat --json /t/old")[0]["size"], 0);
}

#[test]
fn repeated_failures_for_lack_of_space_stop_a_copy_and_are_counted() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root sets quotas");
        return;
    }
    let volume = Volume::up();
    let source = volume.path("source");
    fs::create_dir(&source).unwrap();
    for n in 0..200 {
        fs::write(source.join(format!("f{n}")), bytes(n, 100_000)).unwrap();
    }
    volume.text("mkdir /t");
    volume.text("quota set --tree /t --files 20");
    let said = volume.fails(&format!("cp -r {} weft:/t", source.display()), 1);
    assert!(
        said.contains("(the first 10 are named above); the copy stopped: free some space"),
        "{said}"
    );
    assert!(said.lines().count() < 15, "{said}");
    assert!(said.contains("with -n only the missing files"), "{said}");
}
