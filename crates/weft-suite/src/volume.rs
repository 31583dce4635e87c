//! A volume of a benchmark's own: started as a user does, stopped and removed at the end.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::SuiteError;

/// How long the loss of a replica may go unnoticed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running volume in a folder of its own; dropped, it is stopped and removed.
#[derive(Debug)]
pub struct TemporaryVolume {
    program: PathBuf,
    folder: TempDir,
}

impl TemporaryVolume {
    /// Starts a fresh volume with `weft up`. `program` is the binary; the volume's folder is made
    /// in `folder`; `options` are given to `weft up`.
    pub fn start(
        program: &Path,
        folder: &Path,
        servers: u32,
        options: &[&str],
    ) -> Result<TemporaryVolume, SuiteError> {
        let volume = TemporaryVolume {
            program: program.to_owned(),
            folder: folder_in(folder)?,
        };
        let mut up = Command::new(program);
        up.arg("up")
            .arg(volume.path())
            .args(["--servers", &servers.to_string()])
            .args(options);
        run(&mut up)?;
        Ok(volume)
    }

    /// Stops it and starts it again.
    pub fn restart(&self) -> Result<(), SuiteError> {
        for command in ["down", "up"] {
            run(Command::new(&self.program).arg(command).arg(self.path()))?;
        }
        Ok(())
    }

    /// What `weft status` says, whatever its exit code is.
    fn status(&self) -> Result<serde_json::Value, SuiteError> {
        let mut status = Command::new(&self.program);
        status.arg("status").arg(self.path()).arg("--json");
        let told = status.stdin(Stdio::null()).output();
        let told = told.map_err(SuiteError::local("cannot run", &self.program))?;
        Ok(serde_json::from_slice(&told.stdout).unwrap_or_default())
    }

    /// Kills a backup of the first server, and waits until the server goes on without it.
    pub fn lose_backup(&self) -> Result<(), SuiteError> {
        let told = self.status()?;
        let replicas = told["servers"][0]["replicas"].as_array();
        let mut replicas = replicas.into_iter().flatten();
        let backup = replicas.find(|replica| replica["role"] == "backup");
        let pid = backup.and_then(|backup| i32::try_from(backup["pid"].as_i64()?).ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            return Err(SuiteError::Asked("no server has a backup".to_owned()));
        };
        kill_process(pid, Signal::KILL).ok();
        let deadline = Instant::now() + PATIENCE;
        while self.status()?["redundant"] != false {
            if Instant::now() > deadline {
                return Err(SuiteError::part("the loss of a replica was not noticed"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Process ids of its I/O servers.
    pub fn server_processes(&self) -> Result<Vec<u32>, SuiteError> {
        let told = self.status()?;
        let servers = told["servers"].as_array().into_iter().flatten();
        let pids = servers.filter_map(|server| server["pid"].as_u64()?.try_into().ok());
        Ok(pids.collect())
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for TemporaryVolume {
    fn drop(&mut self) {
        let mut down = Command::new(&self.program);
        down.arg("down").arg(self.folder.path());
        if let Err(error) = run(&mut down) {
            // A panic in a drop would hide the first error.
            let _ = writeln!(std::io::stderr(), "{error}");
        }
    }
}

/// A folder that goes when it is dropped.
pub(crate) fn folder_in(folder: &Path) -> Result<TempDir, SuiteError> {
    tempfile::Builder::new()
        .prefix("weft-bench-")
        .tempdir_in(folder)
        .map_err(SuiteError::local("cannot make a folder in", folder))
}

/// Runs a program to its end; what it printed.
pub(crate) fn run(command: &mut Command) -> Result<Vec<u8>, SuiteError> {
    let program = PathBuf::from(command.get_program());
    // In a group of its own: Ctrl-C is for this process, which cleans up with the help of such
    // programs.
    let out = command
        .process_group(0)
        .stdin(Stdio::null())
        .output()
        .map_err(SuiteError::local("cannot run", program))?;
    if out.status.success() {
        return Ok(out.stdout);
    }
    Err(failed(command, &out.stderr))
}

/// That a program failed, with its last words.
pub(crate) fn failed(command: &Command, stderr: &[u8]) -> SuiteError {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    let said = String::from_utf8_lossy(stderr);
    SuiteError::Program {
        command: words.join(" "),
        said: said.lines().last().unwrap_or("it said nothing").to_owned(),
    }
}
