//! A volume for tests of applications.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

/// A running volume, which is stopped on drop.
pub struct TestVolume {
    folder: TempDir,
}

impl TestVolume {
    /// Starts a volume of this many servers.
    pub fn start(servers: u32) -> TestVolume {
        let volume = TestVolume {
            folder: tempfile::tempdir().unwrap(),
        };
        let folder = volume.dir();
        let up = Command::new(env!("CARGO_BIN_EXE_weft"))
            .args(["up", &folder, "--servers", &servers.to_string()])
            .output()
            .unwrap();
        assert!(up.status.success(), "{}", text(&up.stderr));
        volume
    }

    fn dir(&self) -> String {
        self.folder.path().join("volume").to_str().unwrap().into()
    }

    /// A command on the volume.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.arg("--volume").arg(self.dir()).args(args);
        command
    }

    /// Runs a command and returns its output.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed. Returns its output.
    pub fn ok(&self, args: &[&str]) -> Vec<u8> {
        let out = self.run(args);
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
        out.stdout
    }

    /// Runs a command that must fail. Returns its error message.
    pub fn fails(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert!(!out.status.success(), "{args:?} succeeds");
        text(&out.stderr)
    }

    /// The JSON that a command prints.
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_slice(&self.ok(args)).unwrap()
    }

    /// Creates a file with this layout and fills it.
    pub fn put(&self, path: &str, layout: &[&str], data: &[u8]) {
        self.ok(&[&["create", path], layout].concat());
        let mut put = self
            .command(&["put", path])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        put.stdin.take().unwrap().write_all(data).unwrap();
        let out = put.wait_with_output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
    }

    /// All names in a directory.
    pub fn names(&self, directory: &str) -> String {
        text(&self.ok(&["ls", "-a", directory]))
    }
}

impl Drop for TestVolume {
    fn drop(&mut self) {
        let down = Command::new(env!("CARGO_BIN_EXE_weft"))
            .args(["down", &self.dir()])
            .output();
        if !std::thread::panicking() {
            assert!(down.unwrap().status.success());
        }
    }
}

/// Text for assertions.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Random bytes, the same for the same seed.
pub fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SmallRng::seed_from_u64(seed).fill(&mut bytes[..]);
    bytes
}
