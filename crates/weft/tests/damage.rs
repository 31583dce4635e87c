//! A namespace that was damaged while the volume was down is noticed.

use std::path::Path;
use std::process::{Command, Output};

fn weft(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(args)
        .output()
        .unwrap()
}

struct Down<'a>(&'a str);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        weft(&["down", self.0]);
    }
}

#[test]
fn a_namespace_damaged_while_it_was_down_is_refused() {
    let folder = tempfile::Builder::new()
        .prefix("weft-damage-")
        .tempdir()
        .unwrap();
    let path = folder.path().join("volume");
    let dir = path.to_str().unwrap();
    let _down = Down(dir);
    assert!(weft(&["up", dir, "--servers", "1"]).status.success());
    for i in 0..50 {
        assert!(
            weft(&["--volume", dir, "mkdir", &format!("/d{i}")])
                .status
                .success()
        );
    }
    assert!(weft(&["down", dir]).status.success());
    damage(&path.join("meta/namespace/0.jnl"));
    let up = weft(&["up", dir]);
    let said = String::from_utf8_lossy(&up.stderr).into_owned();
    assert!(
        !up.status.success(),
        "half of the namespace was taken for all of it"
    );
    assert!(
        said.contains("is damaged") && said.contains("Restore"),
        "{said}"
    );
}

/// A repair tells the same of files whatever was tried before it: that the service did not end well means nothing where nobody can
/// come back to it.
#[test]
fn what_a_damaged_index_lost_is_named_also_after_a_start_that_failed() {
    let folder = tempfile::Builder::new()
        .prefix("weft-damage-")
        .tempdir()
        .unwrap();
    let path = folder.path().join("volume");
    let dir = path.to_str().unwrap();
    let _down = Down(dir);
    assert!(weft(&["up", dir, "--servers", "1"]).status.success());
    let local = folder.path().join("local");
    std::fs::write(&local, vec![7; 300_000]).unwrap();
    for i in 0..12 {
        let file = format!("weft:/f{i}");
        let copied = weft(&["--volume", dir, "cp", local.to_str().unwrap(), &file]);
        assert!(copied.status.success(), "{copied:?}");
    }
    assert!(weft(&["down", dir]).status.success());
    damage(&path.join("server-0/index/0.jnl"));
    assert!(!weft(&["up", dir]).status.success());
    let repaired = weft(&["fsck", "--offline", dir, "--repair"]);
    let said = String::from_utf8_lossy(&repaired.stdout).into_owned();
    assert_eq!(repaired.status.code(), Some(1), "{said}");
    assert!(weft(&["up", dir]).status.success());
    let mut lost = 0;
    for i in 0..12 {
        let file = format!("/f{i}");
        let read = weft(&["--volume", dir, "cat", &file]);
        if read.stdout != vec![7; 300_000] {
            lost += 1;
            assert!(
                said.contains(&format!("{file} (file ")),
                "{file} is lost and not named: {said}"
            );
        }
    }
    assert!(lost > 0, "nothing was lost: {said}");
}

/// Flips bytes in the middle of what the journal holds.
fn damage(journal: &Path) {
    let mut bytes = std::fs::read(journal).unwrap();
    let end = bytes.iter().rposition(|b| *b != 0).unwrap();
    let middle = end / 2;
    for byte in &mut bytes[middle..middle + 64] {
        *byte ^= 0xFF;
    }
    std::fs::write(journal, bytes).unwrap();
}
