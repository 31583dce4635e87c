//! Trees by import and export: in parts, refused, resumed, verified.

mod files_support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use files_support::{Volume, bytes};

/// Content, mode and time of every file, by its place in the tree.
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
fn parts_of_a_tree_are_disjoint_and_together_the_tree() {
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
fn a_tree_is_replaced_only_when_asked_for_and_what_is_the_same_is_left_alone() {
    let volume = Volume::up();
    let source = volume.path("source");
    tree(&source);
    let from = source.display();
    volume.text(&format!("import -r {from} /tree"));
    let refused = volume.fails(&format!("import -r {from} /tree"), 1);
    assert!(refused.contains("--force"), "{refused}");
    // As after an interruption: one file is missing, one is half there.
    volume.text("rm /tree/folder-0/deeper/file-5");
    volume.text("truncate --size 100 /tree/folder-1/deeper/file-7");
    let done = volume.json(&format!("import -r {from} /tree --resume --verify --json"));
    assert_eq!(done["bytes"], 5000 + 7000, "{done}");
    let copy = volume.path("copy");
    volume.text(&format!("export -r /tree {}", copy.display()));
    assert!(scan(&source) == scan(&copy));
    // What has the size and the time, but other bytes, is found by comparing.
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
