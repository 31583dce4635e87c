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
