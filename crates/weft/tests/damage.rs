//! Journals of a namespace and of indexes that are damaged while they are closed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn weft(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(args)
        .output()
        .unwrap()
}

/// A volume with one server in a temporary folder.
struct Volume {
    folder: tempfile::TempDir,
    dir: String,
}

impl Volume {
    fn up() -> Volume {
        let folder = tempfile::Builder::new().prefix("weft-damage-").tempdir();
        let folder = folder.unwrap();
        let dir = folder.path().join("volume").to_str().unwrap().to_owned();
        assert!(weft(&["up", &dir, "--servers", "1"]).status.success());
        Volume { folder, dir }
    }

    /// Runs a command on the volume that must succeed. Returns its output.
    fn run(&self, args: &[&str]) -> Vec<u8> {
        let out = weft(&[&["--volume", &self.dir], args].concat());
        assert!(out.status.success(), "{args:?}: {out:?}");
        out.stdout
    }

    fn put(&self, files: std::ops::Range<usize>) {
        let local = self.folder.path().join("local");
        for i in files {
            std::fs::write(&local, content(i)).unwrap();
            self.run(&["cp", local.to_str().unwrap(), &format!("weft:/f{i}")]);
        }
    }

    fn holds(&self, i: usize) -> bool {
        weft(&["--volume", &self.dir, "cat", &format!("/f{i}")]).stdout == content(i)
    }

    /// Kills a node and stops the others.
    fn kill(&self, node: impl Fn(&serde_json::Value) -> &serde_json::Value) {
        let status = weft(&["status", &self.dir, "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        let pid = i32::try_from(node(&status)["pid"].as_i64().unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        weft(&["down", &self.dir]);
    }

    fn journal(&self, of: &str) -> PathBuf {
        self.folder.path().join("volume").join(of).join("0.jnl")
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        weft(&["down", &self.dir]);
    }
}

fn content(i: usize) -> Vec<u8> {
    (0..300_000).map(|at| (at % 251 + i) as u8).collect()
}

#[test]
fn a_namespace_damaged_after_its_service_was_killed_is_refused() {
    let volume = Volume::up();
    for i in 0..50 {
        volume.run(&["mkdir", &format!("/d{i}")]);
    }
    volume.kill(|status| &status["meta"]);
    damage(&volume.journal("meta/namespace"));
    let up = weft(&["up", &volume.dir]);
    let said = String::from_utf8_lossy(&up.stderr).into_owned();
    assert!(
        !up.status.success(),
        "the service started with half of the namespace"
    );
    assert!(
        said.contains("is damaged") && said.contains("Restore"),
        "{said}"
    );
}

#[test]
fn a_stopped_volume_has_empty_journals() {
    let volume = Volume::up();
    volume.put(0..12);
    volume.run(&["fsck"]);
    volume.put(12..16);
    assert!(weft(&["down", &volume.dir]).status.success());
    damage(&volume.journal("meta/namespace"));
    std::fs::write(volume.journal("server-0/index"), b"").unwrap();
    assert!(weft(&["up", &volume.dir]).status.success());
    for i in 0..16 {
        assert!(volume.holds(i), "/f{i}");
    }
    volume.run(&["fsck", "--data"]);
}

/// Changes of the index stay in the log until they are in tables.
#[test]
fn an_index_that_lost_its_journal_is_recovered_from_the_log() {
    let volume = Volume::up();
    volume.put(0..12);
    // Moves the log into the index.
    volume.run(&["fsck"]);
    volume.put(12..16);
    volume.run(&["fsck"]);
    volume.put(16..20);
    volume.kill(|status| &status["servers"][0]);
    let journal = volume.journal("server-0/index");
    damage(&journal);
    assert!(!weft(&["up", &volume.dir]).status.success());
    let repaired = weft(&["fsck", "--offline", &volume.dir, "--repair"]);
    let said = String::from_utf8_lossy(&repaired.stdout).into_owned();
    assert_eq!(repaired.status.code(), Some(1), "{said}");
    assert!(
        said.contains("went back to the state before them"),
        "{said}"
    );
    assert!(
        !said.contains("/f"),
        "the message names files that lost nothing: {said}"
    );
    assert!(journal.with_extension("damaged").exists());
    assert!(weft(&["up", &volume.dir]).status.success());
    for i in 0..20 {
        assert!(volume.holds(i), "/f{i}: {said}");
    }
    volume.run(&["fsck", "--data"]);
}

#[test]
fn a_log_that_starts_after_the_rest_of_the_index_is_reported() {
    let volume = Volume::up();
    volume.put(0..6);
    volume.run(&["fsck"]);
    volume.put(6..9);
    volume.kill(|status| &status["servers"][0]);
    damage(&volume.journal("server-0/index"));
    let store = volume.folder.path().join("volume/server-0/store");
    std::fs::remove_file(store.join("log.000000000001")).unwrap();
    let repaired = weft(&["fsck", "--offline", &volume.dir, "--repair"]);
    let said = String::from_utf8_lossy(&repaired.stdout).into_owned();
    assert!(
        said.contains("does not reach back") && said.contains("log.000000000002"),
        "{said}"
    );
    assert!(weft(&["up", &volume.dir]).status.success());
    // Lost bytes are reported, and no read returns wrong ones.
    for i in 0..9 {
        let file = format!("/f{i}");
        let found = weft(&["--volume", &volume.dir, "cat", &file]).stdout;
        assert!(content(i).starts_with(&found), "{file}: {said}");
        assert!(
            found.len() == content(i).len() || said.contains(&format!("{file} (file ")),
            "{file} lost bytes and is not named: {said}"
        );
    }
    weft(&[
        "--volume",
        &volume.dir,
        "fsck",
        "--repair",
        "--accept-server",
        "0",
    ]);
    volume.run(&["fsck", "--data"]);
}

/// Flips a bit of written data in the log.
fn damage_a_write(store: &Path, of: &[u8]) {
    let logs = std::fs::read_dir(store).unwrap().map(|e| e.unwrap().path());
    let is_log = |path: &PathBuf| path.to_str().unwrap().contains("/log.");
    for path in logs.filter(is_log) {
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(of.len()).position(|w| w == of) {
            bytes[at] ^= 1;
            std::fs::write(path, bytes).unwrap();
            return;
        }
    }
    panic!("the write is not in the log");
}

#[test]
fn bytes_lost_with_a_damaged_log_are_errors_until_they_are_accepted() {
    let volume = Volume::up();
    volume.put(0..4);
    volume.run(&["fsck"]);
    volume.put(4..7);
    volume.kill(|status| &status["servers"][0]);
    let store = volume.folder.path().join("volume/server-0/store");
    // The end of the file, which is not a whole block.
    damage_a_write(&store, &content(5)[299_100..299_900]);
    assert!(!weft(&["up", &volume.dir]).status.success());
    let repaired = weft(&["fsck", "--offline", &volume.dir, "--repair"]);
    let said = String::from_utf8_lossy(&repaired.stdout).into_owned();
    assert_eq!(repaired.status.code(), Some(4), "{said}");
    assert!(
        said.contains("not proven") && said.contains("/f5"),
        "{said}"
    );
    // Each file is reported in its current state only, not also as repaired.
    let repaired = |line: &&str| line.contains("-- repaired") && line.contains(" (file ");
    assert_eq!(said.lines().find(repaired), None, "{said}");
    assert!(weft(&["up", &volume.dir]).status.success());
    let cat = |file: &str| weft(&["--volume", &volume.dir, "cat", file]);
    let refused = cat("/f5");
    assert!(!refused.status.success());
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        error.contains("not proven") && error.contains("/f5"),
        "{error}"
    );
    for _ in 0..2 {
        let status = weft(&["status", &volume.dir]);
        assert_eq!(status.status.code(), Some(1), "{status:?}");
        let said = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(said.contains("not proven"), "{said}");
        let fsck = weft(&["--volume", &volume.dir, "fsck", "--repair"]);
        assert_eq!(fsck.status.code(), Some(4), "{fsck:?}");
    }
    assert!(
        (0..4).all(|i| volume.holds(i)),
        "files that the lost frames did not touch are readable"
    );
    // Restore one file, accept the loss of another, and then that of all others.
    let whole = volume.folder.path().join("local");
    std::fs::write(&whole, content(5)).unwrap();
    volume.run(&["cp", whole.to_str().unwrap(), "weft:/f5"]);
    assert!(volume.holds(5));
    weft(&["--volume", &volume.dir, "fsck", "--accept", "/f6"]);
    assert!(cat("/f6").status.success());
    weft(&["--volume", &volume.dir, "fsck", "--accept-server", "0"]);
    volume.run(&["fsck", "--data"]);
    assert!(weft(&["status", &volume.dir]).status.success());
}

/// Flips bytes in the middle of the contents of the journal.
fn damage(journal: &Path) {
    let mut bytes = std::fs::read(journal).unwrap();
    let end = bytes.iter().rposition(|b| *b != 0).unwrap();
    let middle = end / 2;
    for byte in &mut bytes[middle..middle + 64] {
        *byte ^= 0xFF;
    }
    std::fs::write(journal, bytes).unwrap();
}
