//! Transfers in parts by several processes at once: they produce one file and leave nothing behind.

mod files_support;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Stdio};

use files_support::{Volume, bytes};

/// Runs these command lines at the same time; all of them succeed.
fn at_once(volume: &Volume, lines: impl IntoIterator<Item = String>) {
    let start = |line: String| -> (String, Child) {
        let mut command = volume.command(line.split_whitespace());
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        (line, child.unwrap())
    };
    let children: Vec<_> = lines.into_iter().map(start).collect();
    for (line, child) in children {
        let out = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{line}: {error}");
    }
}

/// The files of a folder whose names begin with `begin`.
fn beside(folder: &Path, begin: &str) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(begin)).collect()
}

#[test]
fn concurrent_parts_make_one_file_and_leave_nothing_behind() {
    let volume = Volume::up();
    let data = bytes(1, (30 << 20) + 12_345);
    let (source, copy) = (volume.path("source"), volume.path("copy"));
    fs::write(&source, &data).unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o640)).unwrap();
    let (from, to) = (source.display(), copy.display());
    let layout = "--cells 5 --bsu 10007";
    at_once(
        &volume,
        (1..=4).map(|i| format!("import {from} /big {layout} --part {i}/4 --verify")),
    );
    assert!(volume.run(["cat", "/big"]) == data);
    let attributes = volume.json("stat --json /big");
    assert_eq!(attributes_size(&attributes), data.len() as u64);
    // No progress record is left, so there is only data.
    let refused = volume.fails(&format!("import {from} /big --part 2/4"), 1);
    assert!(
        refused.contains("holds data") && !refused.contains("unfinished"),
        "{refused}"
    );

    at_once(
        &volume,
        (1..=4).map(|i| format!("export /big {to} --part {i}/4 --verify")),
    );
    assert_eq!(fs::read(&copy).unwrap(), data);
    assert_eq!(beside(copy.parent().unwrap(), "copy"), ["copy"]);
    let (a, b) = (fs::metadata(&source).unwrap(), fs::metadata(&copy).unwrap());
    assert_eq!(
        (a.mode(), a.mtime(), a.mtime_nsec()),
        (b.mode(), b.mtime(), b.mtime_nsec())
    );

    // A second run with --resume copies nothing.
    let again = volume.json(&format!("import {from} /big --part 3/4 --resume --json"));
    assert_eq!(again["copied"], 0, "{again}");
    let again = volume.json(&format!("export /big {to} --part 3/4 --resume --json"));
    assert_eq!(again["copied"], 0, "{again}");
}

fn attributes_size(stat: &serde_json::Value) -> u64 {
    let stat = stat.as_array().map_or(stat, |all| &all[0]);
    stat["size"].as_u64().unwrap_or_else(|| panic!("{stat}"))
}

#[test]
fn holes_stay_holes_and_old_data_is_removed() {
    const SIZE: u64 = 96 << 20;
    let volume = Volume::up();
    let (source, copy) = (volume.path("sparse"), volume.path("copy"));
    let file = File::create(&source).unwrap();
    file.set_len(SIZE).unwrap();
    let mut expected = vec![0; SIZE as usize];
    for (seed, at) in [(1, 5 << 20), (2, (40 << 20) + 777), (3, 70 << 20)] {
        let data = bytes(seed, 100_000);
        file.write_all_at(&data, at as u64).unwrap();
        expected[at..at + data.len()].copy_from_slice(&data);
    }
    let (from, to) = (source.display(), copy.display());
    let done = volume.json(&format!("import {from} /new --json"));
    assert!(done["written"].as_u64().unwrap() < 2 << 20, "{done}");
    assert_eq!(done["copied"], SIZE);
    assert!(volume.run(["cat", "/new"]) == expected);

    // Replace longer files without zeros, in the volume and on the local disk.
    let old = volume.path("old");
    fs::write(&old, vec![0xEE; SIZE as usize + 5_000_000]).unwrap();
    volume.text(&format!("import {} /old", old.display()));
    let refused = volume.fails(&format!("import {from} /old"), 1);
    assert!(refused.contains("--force"), "{refused}");
    at_once(
        &volume,
        (1..=3).map(|i| format!("import {from} /old --part {i}/3 --force --verify")),
    );
    assert!(volume.run(["cat", "/old"]) == expected);

    let refused = volume.fails(&format!("export /new {}", old.display()), 1);
    assert!(refused.contains("--force"), "{refused}");
    assert_eq!(fs::read(&old).unwrap()[0], 0xEE);
    at_once(
        &volume,
        (1..=3).map(|i| {
            format!(
                "export /new {} --part {i}/3 --force --verify",
                old.display()
            )
        }),
    );
    assert!(fs::read(&old).unwrap() == expected);
    volume.text(&format!("export /new {to}"));
    assert!(fs::read(&copy).unwrap() == expected);
    let blocks = fs::metadata(&copy).unwrap().blocks() * 512;
    assert!(blocks < 4 << 20, "the copy takes {blocks} bytes");
}

#[test]
fn a_part_does_not_hide_lost_bytes_of_another_part() {
    let volume = Volume::up();
    let data = bytes(3, (10 << 20) + 5);
    volume.feed("put /big", &data);
    let copy = volume.path("copy");
    let export = |i: u32| format!("export /big {} --part {i}/2", copy.display());
    let removed = || fs::remove_file(&copy).unwrap();
    let emptied = || fs::write(&copy, b"").unwrap();
    let replaced = || {
        fs::write(volume.path("new"), vec![0; data.len()]).unwrap();
        fs::rename(volume.path("new"), &copy).unwrap();
    };
    let lose: [&dyn Fn(); 3] = [&removed, &emptied, &replaced];
    for lose in lose {
        volume.text(&export(1));
        lose();
        for more in ["", " --resume"] {
            let refused = volume.fails(&(export(2) + more), 1);
            assert!(
                refused.contains("part 1 of this transfer") && refused.contains("--force"),
                "{refused}"
            );
        }
        // It is possible with --force, which is reported.
        let forced = volume
            .command((export(2) + " --force").split_whitespace())
            .output()
            .unwrap();
        let said = String::from_utf8(forced.stderr).unwrap();
        assert!(forced.status.success(), "{said}");
        assert!(said.contains("part 1 of this transfer must be copied again"));
        assert_eq!(beside(copy.parent().unwrap(), "copy.weft").len(), 1);
        volume.text(&export(1));
        assert!(fs::read(&copy).unwrap() == data);
        assert_eq!(beside(copy.parent().unwrap(), "copy"), ["copy"]);
        fs::remove_file(&copy).unwrap();
    }

    let source = volume.path("source");
    fs::write(&source, &data).unwrap();
    let import = |i: u32| format!("import {} /in --part {i}/2", source.display());
    volume.text(&import(1));
    volume.text("truncate -s 0 /in");
    let refused = volume.fails(&import(2), 1);
    assert!(refused.contains("part 1 of this transfer"), "{refused}");
    // The lost part can be copied again, and then the other one.
    volume.text(&(import(1) + " --resume"));
    volume.text(&import(2));
    assert!(volume.run(["cat", "/in"]) == data);
    // Through a view that ends before its last bytes, which are zeros.
    fs::write(&source, vec![0; data.len()]).unwrap();
    let through = |i| import(i) + " --force --partition 0,1000,3000";
    volume.text("rm /in");
    volume.text(&through(1));
    volume.text(&through(2));
    assert!(volume.run("cat /in --partition 0,1000,3000".split(' ')) == vec![0; data.len()]);
}

#[test]
fn impossible_transfers_explain_why() {
    let volume = Volume::up();
    let (file, fifo) = (volume.path("file"), volume.path("fifo"));
    fs::write(&file, b"text").unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let (file, fifo) = (file.display(), fifo.display());
    let folder = volume.path("");
    volume.text(&format!("import {file} /text --cells 2"));
    for (line, code, word) in [
        (format!("import {file} /x --part 3/2"), 2, "from 1 to 2"),
        (format!("import {file} /x --checkpoint 0"), 2, "too little"),
        (format!("import {fifo} /x"), 1, "weft put"),
        (format!("import {} /x", folder.display()), 1, "-r"),
        (format!("import {file}.no /x"), 1, "cannot read"),
        (
            format!("import {file} /text --cells 3"),
            1,
            "another layout",
        ),
        (
            format!("import {file} /text --resume --cell 0"),
            1,
            "--force",
        ),
        (format!("export /text {fifo}"), 1, "weft cat"),
        (format!("export /no {file}"), 1, "/no"),
        (format!("export /text {file} --cell 7"), 1, "cell"),
        (
            format!("export -r /text {file} --limit 1M"),
            2,
            "cannot be used",
        ),
        (
            format!("export -r /text {file} --cell 0"),
            1,
            "not a directory",
        ),
        (
            format!("export -r / {file}-s --cell 0 --resume"),
            1,
            "--force",
        ),
    ] {
        let error = volume.fails(&line, code);
        assert!(error.contains(word), "{line}: {error}");
    }
    // A directory gets a file of the same name.
    volume.text("mkdir /d");
    volume.text(&format!("import {file} /d"));
    assert_eq!(volume.text("cat /d/file"), "text");
    fs::create_dir(volume.path("out")).unwrap();
    volume.text(&format!("export /d/file {}", volume.path("out").display()));
    assert_eq!(fs::read(volume.path("out/file")).unwrap(), b"text");
}
