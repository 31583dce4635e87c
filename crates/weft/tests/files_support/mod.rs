//! A real volume for tests: started with the built binary, stopped on drop.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

/// A volume of three servers.
pub struct Volume {
    folder: TempDir,
    name: &'static str,
}

/// The binary under test, without a volume.
pub fn weft() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command
        .env_remove("WEFT_VOLUME")
        .env_remove("WEFT_ADDRESS")
        .env_remove("WEFT_KEY_FILE");
    command
}

impl Volume {
    /// Starts a volume.
    pub fn up() -> Volume {
        let volume = Volume {
            folder: TempDir::new().unwrap(),
            name: "volume",
        };
        let up = weft()
            .arg("up")
            .arg(volume.path("volume"))
            .args(["--servers", "3"])
            .output();
        let up = up.unwrap();
        assert!(
            up.status.success(),
            "{}",
            String::from_utf8_lossy(&up.stderr)
        );
        volume
    }

    /// A volume shared by all tests of a file that run at the same time; each uses its own
    /// directories.
    pub fn shared() -> Arc<Volume> {
        static SHARED: Mutex<Weak<Volume>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let volume = Arc::new(Volume::up());
            *shared = Arc::downgrade(&volume);
            volume
        })
    }

    /// Stops this volume, and stands for another one that was started in the test's folder.
    pub fn at(mut self, name: &'static str) -> Volume {
        let _ = weft().arg("down").arg(self.path(self.name)).output();
        self.name = name;
        self
    }

    /// A path in the test's folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The binary, on this volume.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = weft();
        command.env("WEFT_VOLUME", self.path(self.name)).args(args);
        command
    }

    /// Runs a command that succeeds; returns its output.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Vec<u8> {
        succeeded(&self.command(args).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs a command line of plain words that succeeds; returns the text it printed.
    pub fn text(&self, line: &str) -> String {
        String::from_utf8(self.run(line.split_whitespace())).unwrap()
    }

    /// Runs a command line of plain words that prints JSON.
    pub fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.text(line)).unwrap()
    }

    /// Starts a command line of plain words and gives it all its input.
    pub fn start(&self, line: &str, input: &[u8]) -> Child {
        let mut child = self
            .command(line.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that fails early need not read everything.
        let _ = child.stdin.take().unwrap().write_all(input);
        child
    }

    /// Runs a command line of plain words that gets input, and succeeds.
    pub fn feed(&self, line: &str, input: &[u8]) {
        succeeded(&self.start(line, input).wait_with_output().unwrap());
    }

    /// Runs a command line of plain words that fails with this exit code. Returns its error
    /// message.
    pub fn fails(&self, line: &str, code: i32) -> String {
        let output = self
            .command(line.split_whitespace())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {error}");
        assert!(!error.contains("panicked"), "{line}: {error}");
        error
    }
}

fn succeeded(output: &Output) -> Vec<u8> {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "exit {:?}: {error}",
        output.status.code()
    );
    output.stdout.clone()
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = weft().arg("down").arg(self.path(self.name)).output();
    }
}

/// Bytes that are the same in each run and do not repeat.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    use rand::{RngCore, SeedableRng};
    let mut bytes = vec![0; length];
    rand::rngs::SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
