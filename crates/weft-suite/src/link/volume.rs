//! A volume whose servers are in network namespaces: configured, formatted and served by the
//! binary, as an administrator of several machines would.

use std::fmt::Write;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::Names;
use crate::SuiteError;
use crate::volume::{folder_in, run};

const PORT: u16 = 4700;
/// For all nodes to serve, and for all to end.
const PATIENCE: Duration = Duration::from_mins(1);
const STEP: Duration = Duration::from_millis(20);

/// A running volume; dropped, its nodes are ended, then its namespaces and its folder removed.
#[derive(Debug)]
pub(crate) struct LinkedVolume {
    /// Servers first: what they still owe to the metadata service they can say.
    nodes: Vec<Child>,
    names: Names,
    folder: TempDir,
}

impl LinkedVolume {
    /// Starts a fresh volume whose folder is made in `folder`.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        servers: u32,
        names: Names,
    ) -> Result<LinkedVolume, SuiteError> {
        let mut volume = LinkedVolume {
            nodes: Vec::new(),
            folder: folder_in(folder)?,
            names,
        };
        let config = volume.path().join("weft.toml");
        let text = volume.configuration(servers);
        std::fs::write(&config, text).map_err(SuiteError::local("cannot write", &config))?;
        run(Command::new(program)
            .arg("format")
            .arg("--config")
            .arg(&config))?;
        for server in 0..servers {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &volume.names.name(server)]);
            command.arg(program).args(["serve", "--role", "io"]);
            command.args(["--server", &server.to_string()]);
            volume.serve(command, &format!("server-{server}"))?;
        }
        let mut meta = Command::new(program);
        meta.args(["serve", "--role", "meta"]);
        volume.serve(meta, "meta")?;
        volume.wait(program)?;
        Ok(volume)
    }

    /// Its folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn configuration(&self, servers: u32) -> String {
        let mut text = format!(
            "[volume]\nname = \"bench\"\nkey = \"volume.key\"\n\n[meta]\naddress = \"{}:{PORT}\"\nfolder = \"meta\"\n",
            self.names.own_address()
        );
        for server in 0..servers {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[[server]]\nid = {server}\naddress = \"{}:{PORT}\"\nfolder = \"server-{server}\"\n\
                 cache = \"128 MiB\"\nthreads = 1\n",
                self.names.address(server)
            );
        }
        text
    }

    /// Starts a node, with a log in the volume's folder.
    fn serve(&mut self, mut command: Command, node: &str) -> Result<(), SuiteError> {
        let log = self.path().join(format!("{node}.log"));
        let file = File::create(&log).map_err(SuiteError::local("cannot create", &log))?;
        let both = file.try_clone();
        let both = both.map_err(SuiteError::local("cannot create", &log))?;
        let program = command.get_program().to_owned();
        command
            .arg("--config")
            .arg(self.path())
            .stdin(Stdio::null())
            .stdout(both)
            .stderr(file)
            .process_group(0);
        let child = command.spawn();
        self.nodes
            .push(child.map_err(SuiteError::local("cannot run", program))?);
        Ok(())
    }

    /// Until every server has been heard of.
    fn wait(&mut self, program: &Path) -> Result<(), SuiteError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut status = Command::new(program);
            status.arg("status").arg(self.path());
            let Err(error) = run(&mut status) else {
                return Ok(());
            };
            let ended = self
                .nodes
                .iter_mut()
                .any(|n| !matches!(n.try_wait(), Ok(None)));
            if ended || Instant::now() > deadline {
                return Err(error);
            }
            std::thread::sleep(STEP);
        }
    }
}

impl Drop for LinkedVolume {
    fn drop(&mut self) {
        let last = self.nodes.len().saturating_sub(1);
        let (servers, meta) = self.nodes.split_at_mut(last);
        for group in [servers, meta] {
            for node in group.iter() {
                if let Some(pid) = Pid::from_raw(node.id().cast_signed()) {
                    kill_process(pid, Signal::TERM).ok();
                }
            }
            let deadline = Instant::now() + PATIENCE;
            for node in group {
                while matches!(node.try_wait(), Ok(None)) && Instant::now() < deadline {
                    std::thread::sleep(STEP);
                }
                node.kill().ok();
                node.wait().ok();
            }
        }
    }
}
