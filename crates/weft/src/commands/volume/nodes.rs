//! Starting nodes of a volume in the background.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::limits::{OTHER_NODES_TIMEOUT, START_POLL_INTERVAL};
use crate::process::private_files::{make_folder, open_log};
use crate::volume_config::{Config, NodeName, ServerName, lock_of, note_started};

/// Starts one node in the background, in a session of its own.
fn start(config: &Config, node: NodeName, link: Option<u64>) -> Result<Child> {
    let log_path = node.log(config);
    if let Some(folder) = log_path.parent() {
        make_folder(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let log = open_log(&log_path)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").arg("--config").arg(&config.path);
    match node {
        NodeName::Meta => command.args(["--role", "meta"]),
        NodeName::Server(ServerName { id, replica }) => {
            command.args(["--role", "io", "--server", &id.to_string()]);
            if replica > 0 {
                command.args(["--replica", &replica.to_string()]);
            }
            &mut command
        }
    };
    if let (NodeName::Server(_), Some(rate)) = (node, link) {
        command.args(["--link", &rate.to_string()]);
    }
    // Recorded before it runs, so that the node is found even if the configuration changes.
    note_started(config, node).with_context(|| format!("cannot note that {node} is started"))?;
    // In a session of its own, so that Ctrl-C in the terminal does not reach it.
    command
        .arg("--detach")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    command.current_dir(&config.base);
    command
        .spawn()
        .with_context(|| format!("cannot start {node}"))
}

/// The processes that this command has started. They are stopped again if it fails.
pub(super) struct StartedNodes(Vec<(NodeName, Child)>);

impl StartedNodes {
    /// Starts those of the nodes that do not run.
    pub(super) fn start(
        config: &Config,
        nodes: &[NodeName],
        link: Option<u64>,
    ) -> Result<StartedNodes> {
        let mut started = StartedNodes(Vec::new());
        for node in nodes {
            if lock_of(config, *node)?.is_none() {
                started.0.push((*node, start(config, *node, link)?));
            }
        }
        Ok(started)
    }

    /// Whether all ran before.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets them run on.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }

    /// Waits until all nodes of the configuration serve.
    pub(super) fn wait(&mut self, config: &Config, deadline: Instant) -> Result<()> {
        self.wait_for(config, &config.nodes(), deadline)
    }

    /// Waits until these nodes serve.
    pub(super) fn wait_for(
        &mut self,
        config: &Config,
        nodes: &[NodeName],
        mut deadline: Instant,
    ) -> Result<()> {
        let mut failed = Vec::new();
        loop {
            let mut ready = true;
            for &node in nodes {
                if failed.iter().any(|(other, _)| *other == node) {
                    continue;
                }
                let own = self.0.iter_mut().find(|(own, _)| *own == node);
                let (own, exit) = match own {
                    Some((_, child)) => (true, child.try_wait()?),
                    None => (false, None),
                };
                let running = lock_of(config, node)?;
                if exit.is_none() && (own || running.is_some()) {
                    ready &= running.is_some_and(|running| running.ready);
                    continue;
                }
                let how = exit.map_or("it ended".to_owned(), |exit| exit.to_string());
                let said = last_log_line(&node.log(config));
                failed.push((node, format!("{node} did not start ({how}): {said}")));
                // The other nodes may report a failure, too.
                deadline = deadline.min(Instant::now() + OTHER_NODES_TIMEOUT);
            }
            if !failed.is_empty() && (ready || Instant::now() > deadline) {
                let said: Vec<String> = failed.into_iter().map(|(_, said)| said).collect();
                bail!(said.join("\n"));
            }
            if ready {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "the nodes do not serve yet: see the logs in {}, or wait longer with --wait",
                    config.base.join("log").display()
                );
            }
            sleep(START_POLL_INTERVAL);
        }
    }
}

impl Drop for StartedNodes {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            // Killing loses nothing that was acknowledged.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn last_log_line(log: &Path) -> String {
    let text = File::open(log)
        .and_then(std::io::read_to_string)
        .unwrap_or_default();
    text.lines()
        .rfind(|l| !l.is_empty())
        .unwrap_or("its log is empty")
        .to_owned()
}
