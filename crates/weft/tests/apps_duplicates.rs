//! `weft duplicates` and `weft grid` on real volumes.

mod apps_common;

use std::collections::HashSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use apps_common::{TestVolume, random, text};

/// Blocks and distinct blocks of files with these contents.
fn count(contents: &[Vec<u8>], block: usize) -> (usize, usize) {
    let blocks: Vec<&[u8]> = contents.iter().flat_map(|c| c.chunks(block)).collect();
    let distinct: HashSet<&[u8]> = blocks.iter().copied().collect();
    (blocks.len(), distinct.len())
}

/// A tree with known duplicates: its files' contents.
fn make_tree(root: &Path) -> Vec<Vec<u8>> {
    let shared = random(1, 3 * 4096);
    let contents = vec![
        shared.clone(),
        [&shared[..], b"and a tail"].concat(),
        [&random(2, 100)[..], &shared].concat(),
        b"and a tail".to_vec(),
        vec![0; 10 * 4096 + 5],
        Vec::new(),
        random(3, 2_500_001),
    ];
    for (i, content) in contents.iter().enumerate() {
        let folder = root.join(format!("d{}", i % 3)).join("e\nf");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("file {i}")), content).unwrap();
    }
    symlink("d0", root.join("link")).unwrap();
    symlink("/nowhere", root.join("dangling")).unwrap();
    contents
}

#[test]
fn duplicates_finds_exactly_the_equal_blocks_of_a_tree() {
    let volume = TestVolume::start(4);
    let tree = tempfile::tempdir().unwrap();
    let contents = make_tree(tree.path());
    let path = tree.path().to_str().unwrap();
    for (procs, block, more) in [
        ("1", 4096, &[][..]),
        ("2", 512, &["--cells", "6"]),
        ("4", 4096, &["--memory", "64K"]),
        ("7", 10_000, &["--grid", "/deep/er/grid"]),
    ] {
        let block_text = block.to_string();
        let args = [
            &[
                "duplicates",
                path,
                "--procs",
                procs,
                "--block",
                &block_text,
                "--json",
            ],
            more,
        ]
        .concat();
        let summary = volume.json(&args);
        let (blocks, distinct) = count(&contents, block);
        assert_eq!(summary["files"], contents.len());
        assert_eq!(summary["blocks"], blocks, "{args:?}");
        assert_eq!(summary["distinct"], distinct, "{args:?}");
        assert_eq!(summary["duplicates"], blocks - distinct);
        assert_eq!(summary["skipped_files"], 0);
        assert_eq!(
            summary["workers"].as_array().unwrap().len().to_string(),
            procs
        );
    }
    let summary = volume.json(&["duplicates", path, "--json", "--top", "2"]);
    let top = &summary["top"][0];
    assert_eq!(
        (&top["blocks"], &top["saves"]),
        (&10.into(), &(9 * 4096).into())
    );
    assert_eq!(top["hash"], blake3::hash(&[0; 4096]).to_hex().as_str());
    assert_eq!(top["places"][1]["offset"], 4096);
    assert!(
        top["places"][0]["file"]
            .as_str()
            .unwrap()
            .contains("file 4")
    );
    // The sorted records are kept, with the list of files beside them.
    let records = volume.ok(&["cat", "/duplicates/records.grid"]);
    assert_eq!(
        records.len() as u64,
        64 * summary["blocks"].as_u64().unwrap()
    );
    assert!(records.chunks(64).is_sorted());
    let names = volume.ok(&[
        "cat",
        "/duplicates/records.grid",
        "--cell",
        "0",
        "--fork",
        "names",
    ]);
    assert!(text(&names).contains("d0/e\nf/file 0"));
    assert!(!volume.names("/duplicates").contains("sort-"));
}

#[test]
fn unreadable_files_are_skipped_and_bad_requests_refused() {
    let volume = TestVolume::start(2);
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("a"), random(1, 5000)).unwrap();
    std::fs::write(tree.path().join("secret"), b"secret").unwrap();
    std::fs::set_permissions(tree.path().join("secret"), PermissionsExt::from_mode(0o000)).unwrap();
    let path = tree.path().to_str().unwrap();
    let summary = volume.json(&["duplicates", path, "--procs", "2", "--json"]);
    // Root reads everything.
    let skipped = usize::from(!rustix::process::geteuid().is_root());
    assert_eq!(summary["skipped_files"], skipped);
    assert_eq!(summary["blocks"], 3 - skipped);
    let empty = tempfile::tempdir().unwrap();
    let summary = volume.json(&["duplicates", empty.path().to_str().unwrap(), "--json"]);
    assert_eq!(
        (&summary["blocks"], &summary["duplicates"]),
        (&0.into(), &0.into())
    );
    assert!(
        volume
            .fails(&["duplicates", "/no/such/tree"])
            .contains("/no/such/tree")
    );
    let complaint = volume.fails(&["duplicates", path, "--procs", "4", "--cells", "6"]);
    assert!(complaint.contains("multiple"), "{complaint}");
    volume.fails(&["duplicates", path, "--block", "1"]);
}

#[test]
fn a_grid_is_drawn_with_its_cells_and_servers() {
    let volume = TestVolume::start(3);
    let data = random(1, 10_000);
    volume.ok(&["create", "/g", "--cells", "5", "--bsu", "100"]);
    volume.put("/h", &["--cells", "5", "--bsu", "100"], &data);
    let picture = text(&volume.ok(&["grid", "--ascii", "--width", "60", "/h"]));
    assert!(picture.is_ascii() && picture.contains('#'), "{picture}");
    assert!(picture.lines().all(|l| l.len() <= 60), "{picture}");
    let grid = volume.json(&["grid", "--json", "/h"]);
    assert_eq!(grid["size"], 10_000);
    assert_eq!(grid["cells"].as_array().unwrap().len(), 5);
    assert_eq!(grid["cells"][4]["length"], 2000);
    let lengths: u64 = (0..3)
        .map(|i| grid["servers"][i]["length"].as_u64().unwrap())
        .sum();
    assert_eq!(lengths, 10_000);
    let empty = text(&volume.ok(&["grid", "--ascii", "/g"]));
    assert!(!empty.contains('#'), "{empty}");
    volume.fails(&["grid", "/"]);
    volume.fails(&["grid", "/none"]);
}
