//! The tests that the pages cite exist, and the examples of the pages work.

mod files_support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files below a folder with this extension.
fn below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                found.push(path);
            }
        }
    }
    found
}

/// The names of tests: long and in lower case. Metrics begin with the program's name.
fn cited(page: &str) -> impl Iterator<Item = &str> {
    let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let names = page.split('`').skip(1).step_by(2);
    let names = names.filter(move |name| name.len() > 24 && name.chars().all(small));
    names.filter(|name| !name.starts_with("weft_"))
}

#[test]
fn every_test_that_a_page_cites_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut there = BTreeSet::new();
    for source in below(&root.join("crates"), "rs") {
        let text = fs::read_to_string(source).unwrap();
        let functions = text.split("fn ").skip(1);
        there.extend(functions.filter_map(|f| Some(f.split_once('(')?.0.to_owned())));
    }
    let mut count = 0;
    for page in below(&root.join("docs"), "md") {
        let text = fs::read_to_string(&page).unwrap();
        for name in cited(&text) {
            assert!(
                there.contains(name),
                "{}: `{name}` is not a test",
                page.display()
            );
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn the_records_that_the_readme_reads_are_on_every_server() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let line = |begins: &str| {
        let line = readme.lines().find(|line| line.starts_with(begins));
        let line = line.unwrap_or_else(|| panic!("{begins}"));
        let line = line.split(['|', '#']).next().unwrap();
        line.strip_prefix("weft ").unwrap().trim().to_owned()
    };
    let volume = files_support::Volume::shared();
    volume.text(&line("weft create /grid"));
    volume.feed("put /grid", &vec![1; 1 << 20]);
    let asked = line("weft read /grid");
    assert_eq!(
        asked.strip_prefix("read"),
        line("weft explain /grid 64").strip_prefix("explain")
    );
    assert_eq!(volume.run(asked.split(' ')).len(), 64_000);
    let explained = volume.json(&format!("{} --json", line("weft explain /grid 64")));
    let layout = &volume.json("stat --json /grid")[0]["layout"];
    let servers = layout["servers"].as_array().unwrap().len() as u64;
    assert!(servers > 1);
    assert_eq!(explained["requests"], servers);
    // Every cell has a share, also with four servers.
    let cells = explained["servers"].as_array().unwrap().iter();
    let cells: usize = cells.map(|s| s["cells"].as_array().unwrap().len()).sum();
    assert_eq!(cells, 4);
}
