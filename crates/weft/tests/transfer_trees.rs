//! Trees by import and export: in parts, refused, resumed, verified, compared, through views.

mod files_support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use files_support::{Volume, bytes};

/// Content, mode and time of every file, by its path in the tree.
fn scan(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, i64)> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        let m = fs::symlink_metadata(&path).unwrap();
        let content = if m.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
            Vec::new()
        } else if m.is_symlink() {
            fs::read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else {
            fs::read(&path).unwrap()
        };
        let time = if m.is_symlink() { 0 } else { m.mtime() };
        let place = path.strip_prefix(root).unwrap().to_owned();
        found.insert(place, (content, m.mode(), time));
    }
    found
}

fn tree(root: &Path) {
    for folder in 0..5 {
        let folder = root.join(format!("folder-{folder}/deeper"));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..12_u64 {
            let data = bytes(file, file as usize * 1000);
            fs::write(folder.join(format!("file-{file}")), data).unwrap();
        }
        std::os::unix::fs::symlink("file-1", folder.join("link")).unwrap();
        fs::hard_link(folder.join("file-3"), folder.join("also-3")).unwrap();
    }
    fs::write(root.join("large"), bytes(99, 9_000_000)).unwrap();
    fs::set_permissions(root.join("large"), fs::Permissions::from_mode(0o400)).unwrap();
}

#[test]
fn parts_of_a_tree_are_disjoint_and_cover_the_tree() {
    let volume = Volume::up();
    let (source, copy) = (volume.path("source"), volume.path("copy"));
    tree(&source);
    let (from, to) = (source.display(), copy.display());
    let mut files = 0;
    for i in [2, 3, 1] {
        let line = format!("import -r {from} /tree --part {i}/3 --verify --json");
        let done = volume.json(&line);
        let share = done["files"].as_u64().unwrap();
        assert!(share > 5, "{done}");
        files += share;
    }
    assert_eq!(files, 5 * 13 + 1);
    volume.text(&format!("export -r /tree {to} --verify"));
    assert!(scan(&source) == scan(&copy));
    let inode = |name| {
        fs::metadata(copy.join("folder-2/deeper").join(name))
            .unwrap()
            .ino()
    };
    assert_eq!(inode("file-3"), inode("also-3"));
}

#[test]
fn a_tree_is_replaced_only_on_request_and_equal_files_are_skipped() {
    let volume = Volume::up();
    let source = volume.path("source");
    tree(&source);
    let from = source.display();
    volume.text(&format!("import -r {from} /tree"));
    let refused = volume.fails(&format!("import -r {from} /tree"), 1);
    assert!(refused.contains("--force"), "{refused}");
    // As after an interruption: one file is missing, one is incomplete.
    volume.text("rm /tree/folder-0/deeper/file-5");
    volume.text("truncate --size 100 /tree/folder-1/deeper/file-7");
    let done = volume.json(&format!("import -r {from} /tree --resume --verify --json"));
    assert_eq!(done["bytes"], 5000 + 7000, "{done}");
    let copy = volume.path("copy");
    volume.text(&format!("export -r /tree {}", copy.display()));
    assert!(scan(&source) == scan(&copy));
    // A file of equal size and time but other content is found by comparing.
    let victim = copy.join("folder-4/deeper/file-9");
    let time = fs::metadata(&victim).unwrap().modified().unwrap();
    let mut data = fs::read(&victim).unwrap();
    data[4321] ^= 1;
    fs::write(&victim, &data).unwrap();
    fs::File::options()
        .write(true)
        .open(&victim)
        .unwrap()
        .set_modified(time)
        .unwrap();
    let line = format!("export -r /tree {} --resume --verify", copy.display());
    let found = volume.fails(&line, 1);
    assert!(found.contains("file-9 differ at byte 4321"), "{found}");
    volume.text(&format!("export -r /tree {} --force", copy.display()));
    assert!(scan(&source) == scan(&copy));
}

/// Bytes of a cell of a file of three cells with a BSU of 100.
fn cell(content: &[u8], cell: usize) -> Vec<u8> {
    let units = content.chunks(100).skip(cell).step_by(3);
    units.flatten().copied().collect()
}

#[test]
fn a_view_applies_to_every_file_of_a_tree() {
    let volume = Volume::up();
    let source = volume.path("source");
    tree(&source);
    for directory in ["/tree", "/again"] {
        volume.text(&format!("mkdir {directory}"));
        volume.text(&format!(
            "create --directory {directory} --cells 3 --bsu 100"
        ));
    }
    volume.text(&format!("import -r {} /tree", source.display()));
    for k in 0..3 {
        let copy = volume.path(format!("cell-{k}"));
        let line = format!("export -r /tree {} --cell {k} --verify", copy.display());
        let mut files = 0;
        for part in ["--part 1/2", "--part 2/2"] {
            let line = format!("{line} {part} --json");
            let out = volume.command(line.split_whitespace()).output().unwrap();
            let error = String::from_utf8(out.stderr).unwrap();
            assert!(out.status.success() && error.contains("skipped"), "{error}");
            let summary: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
            files += summary["files"].as_u64().unwrap();
        }
        assert_eq!(files, 5 * 13 + 1);
        for (place, (content, mode, _)) in scan(&source) {
            match mode & 0o170_000 {
                0o100_000 => {
                    let brought = fs::read(copy.join(&place)).unwrap();
                    assert!(brought == cell(&content, k), "{} {k}", place.display());
                }
                0o040_000 => assert!(copy.join(&place).is_dir()),
                _ => assert!(fs::symlink_metadata(copy.join(&place)).is_err()),
            }
        }
        let line = format!("import -r {} /again --cell {k}", copy.display());
        volume.text(&line);
        let refused = volume.fails(&line, 1);
        assert!(refused.contains("--force"), "{refused}");
        volume.text(&format!("{line} --force"));
        volume.text(&format!("{line} --compare"));
    }
    let again = volume.path("again");
    volume.text(&format!("export -r /again {}", again.display()));
    let (all, again) = (scan(&source), scan(&again));
    for (place, (content, ..)) in &again {
        assert!(all[place].0 == *content, "{}", place.display());
    }
    assert_eq!(all.len(), again.len() + 5, "all files except the links");
}

#[test]
fn comparing_trees_finds_every_difference_and_copies_nothing() {
    let volume = Volume::up();
    let source = volume.path("source");
    tree(&source);
    let from = source.display().to_string();
    volume.text(&format!("import -r {from} /tree"));
    let compare = [
        format!("import -r {from} /tree --compare"),
        format!("export -r /tree {from} --compare"),
    ];
    for line in &compare {
        let same = volume.json(&format!("{line} --json"));
        assert_eq!(same["failures"], 0, "{same}");
        assert_eq!((&same["files"], &same["others"]), (&66.into(), &5.into()));
    }
    // One byte, a size, a link, a kind, and a name on either side.
    volume.feed("write /tree/folder-1/deeper/file-9 1 --offset 4321", b"!");
    volume.text("truncate --size 11 /tree/folder-2/deeper/file-4");
    volume.text("rm /tree/folder-0/deeper/link");
    volume.text("ln -s elsewhere /tree/folder-0/deeper/link");
    volume.text("rm /tree/folder-3/deeper/file-5");
    volume.text("mkdir /tree/folder-3/deeper/file-5");
    volume.text("rm /tree/folder-4/deeper/file-6");
    volume.text("create /tree/folder-4/more");
    let marks = [
        "file-9 differ at byte 4321",
        "folder-2/deeper/file-4",
        "different targets",
        "a different kind",
        "folder-4/deeper/file-6 ",
        "folder-4/more ",
    ];
    for line in &compare {
        let found = volume.fails(line, 1);
        for mark in marks {
            assert!(found.contains(mark), "{line}: {mark}: {found}");
        }
        assert_eq!(found.lines().count(), marks.len(), "{found}");
        // The parts together find each of them once.
        let parts = [1, 2, 3].map(|i| {
            let line = format!("{line} --part {i}/3");
            let out = volume.command(line.split_whitespace()).output().unwrap();
            String::from_utf8(out.stderr).unwrap().lines().count()
        });
        assert_eq!(parts.iter().sum::<usize>(), marks.len());
    }
    volume.fails("stat /tree/folder-4/deeper/file-6", 1);
    assert!(!source.join("folder-4/more").exists());
}

#[test]
fn many_existing_files_are_counted_with_one_piece_of_advice() {
    let volume = Volume::up();
    let source = volume.path("source");
    fs::create_dir(&source).unwrap();
    for n in 0..300 {
        fs::write(source.join(format!("f{n}")), b"x").unwrap();
    }
    let from = source.display();
    let plain = format!("import -r {from} /tree");
    let view = format!("import -r {from} /tree --cell 0");
    volume.text(&plain);
    for (line, summary) in [
        (plain, "were not replaced: 300"),
        (view, "were not overwritten: 300"),
    ] {
        let said = volume.fails(&line, 1);
        assert_eq!(said.lines().count(), 11, "{said}");
        assert!(said.contains(summary), "{said}");
        assert!(said.contains("(the first 10 are named above)"), "{said}");
        assert_eq!(said.matches("--force").count(), 1, "{said}");
    }
}
