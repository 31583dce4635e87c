//! A volume whose servers are in network namespaces: configured, formatted and served by the
//! binary, as an administrator of several machines would.

use std::fmt::Write;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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
///
/// Machine m is a namespace with its own link. Replica r of server s is on machine s + r: the
/// replicas of a server are behind different links.
#[derive(Debug)]
pub struct LinkedVolume {
    program: PathBuf,
    nodes: Vec<(LinkedNode, Child)>,
    meta: Option<Child>,
    machines: u32,
    names: Names,
    folder: TempDir,
}

/// A replica of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkedNode {
    server: u32,
    replica: u32,
}

impl LinkedNode {
    /// As the configuration calls it.
    fn name(self) -> String {
        match self.replica {
            0 => format!("server-{}", self.server),
            replica => format!("server-{}.{replica}", self.server),
        }
    }

    fn machine(self, machines: u32) -> u32 {
        (self.server + self.replica) % machines
    }
}

impl LinkedVolume {
    /// Starts a fresh volume whose folder is made in `folder`, with as many machines as servers,
    /// each behind a link of so many bytes per second. `None` where this machine or its rights do
    /// not allow namespaces.
    pub fn with_links(
        program: &Path,
        folder: &Path,
        (servers, replicas): (u32, u32),
        rate: u64,
    ) -> Option<Result<LinkedVolume, SuiteError>> {
        let names = Names::make(servers, rate)?;
        let counts = (servers, replicas);
        Some(LinkedVolume::start(program, folder, counts, names))
    }

    /// The same in namespaces that were made.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        (servers, replicas): (u32, u32),
        names: Names,
    ) -> Result<LinkedVolume, SuiteError> {
        let mut volume = LinkedVolume {
            program: program.to_owned(),
            nodes: Vec::new(),
            meta: None,
            machines: servers,
            folder: folder_in(folder)?,
            names,
        };
        let config = volume.path().join("weft.toml");
        let text = volume.configuration(servers, replicas);
        std::fs::write(&config, text).map_err(SuiteError::local("cannot write", &config))?;
        run(Command::new(program)
            .arg("format")
            .arg("--config")
            .arg(&config))?;
        for node in nodes(servers, replicas) {
            volume.serve_on_machine(node)?;
        }
        let mut meta = Command::new(program);
        meta.args(["serve", "--role", "meta"]);
        volume.meta = Some(volume.serve(meta, "meta")?);
        volume.wait()?;
        Ok(volume)
    }

    /// Kills the nodes of a machine, and replaces their disks by empty ones.
    pub fn lose(&mut self, machine: u32) -> Result<(), SuiteError> {
        for node in self.on(machine) {
            for (_, child) in self.nodes.extract_if(.., |(other, _)| *other == node) {
                let mut child = child;
                child.kill().ok();
                child.wait().ok();
            }
            let folder = self.path().join(node.name());
            std::fs::remove_dir_all(&folder)
                .map_err(SuiteError::local("cannot remove", &folder))?;
            let mut format = Command::new(&self.program);
            format.arg("format").arg("--config").arg(self.path());
            run(format.args(["--node", &node.name()]))?;
        }
        Ok(())
    }

    /// Starts the nodes of a machine that was lost.
    pub fn replace(&mut self, machine: u32) -> Result<(), SuiteError> {
        for node in self.on(machine) {
            self.serve_on_machine(node)?;
        }
        Ok(())
    }

    fn on(&self, machine: u32) -> Vec<LinkedNode> {
        let replicas = self.nodes.iter().map(|(node, _)| node.replica).max();
        let all = nodes(self.machines, replicas.unwrap_or(0) + 1);
        all.filter(|node| node.machine(self.machines) == machine)
            .collect()
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn configuration(&self, servers: u32, replicas: u32) -> String {
        let mut text = format!(
            "[volume]\nname = \"bench\"\nkey = \"volume.key\"\n\n[meta]\naddress = \"{}:{PORT}\"\nfolder = \"meta\"\n",
            self.names.own_address()
        );
        for node in nodes(servers, replicas) {
            let (server, replica) = (node.server, node.replica);
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[[server]]\nid = {server}\nreplica = {replica}\naddress = \"{}:{}\"\n\
                 folder = \"{}\"\ncache = \"128 MiB\"\nthreads = 1\n",
                self.names.address(node.machine(servers)),
                PORT + replica as u16,
                node.name(),
            );
        }
        text
    }

    fn serve_on_machine(&mut self, node: LinkedNode) -> Result<(), SuiteError> {
        let mut command = Command::new("ip");
        let name = self.names.name(node.machine(self.machines));
        command.args(["netns", "exec", &name]);
        command.arg(&self.program).args(["serve", "--role", "io"]);
        command.args(["--server", &node.server.to_string()]);
        command.args(["--replica", &node.replica.to_string()]);
        let child = self.serve(command, &node.name())?;
        self.nodes.push((node, child));
        Ok(())
    }

    /// Starts a node, with a log in the volume's folder.
    fn serve(&self, mut command: Command, node: &str) -> Result<Child, SuiteError> {
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
        child.map_err(SuiteError::local("cannot run", program))
    }

    /// Until every server has been heard of.
    fn wait(&mut self) -> Result<(), SuiteError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut status = Command::new(&self.program);
            status.arg("status").arg(self.path());
            let Err(error) = run(&mut status) else {
                return Ok(());
            };
            let ended = self
                .nodes
                .iter_mut()
                .map(|(_, child)| child)
                .chain(&mut self.meta)
                .any(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || Instant::now() > deadline {
                return Err(error);
            }
            std::thread::sleep(STEP);
        }
    }
}

/// The nodes of a volume, in the order in which they start.
fn nodes(servers: u32, replicas: u32) -> impl Iterator<Item = LinkedNode> {
    (0..replicas)
        .flat_map(move |replica| (0..servers).map(move |server| LinkedNode { server, replica }))
}

impl Drop for LinkedVolume {
    fn drop(&mut self) {
        // Servers first: what they still owe to the metadata service they can say.
        let servers: Vec<&mut Child> = self.nodes.iter_mut().map(|(_, child)| child).collect();
        for group in [servers, self.meta.iter_mut().collect()] {
            for node in &group {
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
