//! A volume of one server, started by a shell that can set limits first.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::files_support::weft;

/// The volume. It is stopped on drop.
pub struct OneServer {
    folder: TempDir,
}

impl OneServer {
    /// A folder for a volume that the test starts itself.
    pub fn stopped() -> OneServer {
        OneServer {
            folder: TempDir::new().unwrap(),
        }
    }

    /// Starts a new volume. The shell runs `before` first, such as `ulimit -n 1024;`; it may be
    /// empty.
    pub fn up(before: &str) -> OneServer {
        let volume = OneServer::stopped();
        volume.start(before);
        volume
    }

    /// Starts the volume again.
    pub fn start(&self, before: &str) {
        let script = format!("{before} exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_weft"), "up"]);
        shell.arg(self.path()).args(["--servers", "1"]);
        let up = shell.output().unwrap();
        assert!(up.status.success(), "{}", said(&up));
    }

    /// Stops the volume.
    pub fn down(&self) {
        let down = weft().arg("down").arg(self.path()).output().unwrap();
        assert!(down.status.success(), "{}", said(&down));
    }

    /// The folder of the test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of the volume.
    pub fn path(&self) -> PathBuf {
        self.folder().join("volume")
    }

    /// The processes of its nodes.
    pub fn nodes(&self) -> Vec<i32> {
        let locks = ["meta", "server-0"].map(|node| self.path().join(node).join("weft-node.lock"));
        let pid = |lock: PathBuf| {
            let text = fs::read_to_string(lock).unwrap();
            text.lines().next().unwrap().parse().unwrap()
        };
        locks.map(pid).to_vec()
    }
}

impl Drop for OneServer {
    fn drop(&mut self) {
        let _ = weft().arg("down").arg(self.path()).output();
    }
}

/// The messages of a command on standard error.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
