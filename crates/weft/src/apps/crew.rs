//! A leader's side of its workers: processes that run this binary, and a barrier through their pipes.
//!
//! Why processes: this is how applications use a volume, each with connections of its own. Why pipes: a barrier is
//! one line there and one back, and a worker's death is the end of its pipe, so nobody waits for the dead.
//!
//! Lines are JSON. To a worker: its job, then one line per barrier that it may pass. From it: [`Said`].
//!
//! Invariants:
//! 1. [`Crew::barrier`] ends when all workers have arrived, or with an error when one failed or died.
//! 2. A crew that is dropped or stopped takes its workers with it; a worker whose leader dies exits by itself, as its
//!    standard input ends.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::Global;

/// What a worker tells its leader.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Said {
    /// Bytes moved since it last said so.
    Progress(u64),
    /// It stands at the barrier; its report.
    Arrived(serde_json::Value),
    /// It cannot go on.
    Failed(String),
}

/// The workers of one application.
pub(crate) struct Crew {
    members: Vec<Member>,
    heard: mpsc::Receiver<(usize, Heard)>,
}

struct Member {
    process: Child,
    id: u32,
    input: Option<ChildStdin>,
}

enum Heard {
    Said(Said),
    Nonsense(String),
    End,
}

impl Crew {
    /// Starts one worker per job: this binary with the hidden `subcommand`, on the same volume.
    pub(crate) async fn start<J: Serialize>(
        global: &Global,
        subcommand: &str,
        jobs: &[J],
    ) -> Result<Crew> {
        let program = std::env::current_exe().context("cannot find the program of the workers")?;
        let (tell, heard) = mpsc::channel(64);
        let mut members = Vec::with_capacity(jobs.len());
        for (number, job) in jobs.iter().enumerate() {
            let (mut member, output) = Member::start(&program, global, subcommand)?;
            tokio::spawn(listen(number, output, tell.clone()));
            // A worker that is dead already says so when it is listened to.
            member.tell(job).await.ok();
            members.push(member);
        }
        Ok(Crew { members, heard })
    }

    /// Waits until every worker has arrived; returns their reports in the workers' order.
    pub(crate) async fn barrier<R: DeserializeOwned>(
        &mut self,
        mut progress: impl FnMut(u64),
    ) -> Result<Vec<R>> {
        let mut reports: Vec<Option<R>> = self.members.iter().map(|_| None).collect();
        while reports.iter().any(Option::is_none) {
            let Some((number, heard)) = self.heard.recv().await else {
                bail!("no worker is left");
            };
            match heard {
                Heard::Said(Said::Progress(bytes)) => progress(bytes),
                Heard::Said(Said::Arrived(report)) => {
                    let report = serde_json::from_value(report)
                        .with_context(|| format!("worker {number} reports something else"))?;
                    reports[number] = Some(report);
                }
                Heard::Said(Said::Failed(message)) => bail!("worker {number}: {message}"),
                Heard::Nonsense(line) => bail!("worker {number} said {line:?}"),
                Heard::End => return Err(self.death_of(number).await),
            }
        }
        Ok(reports.into_iter().flatten().collect())
    }

    /// Lets every worker pass the barrier.
    pub(crate) async fn release(&mut self) -> Result<()> {
        for number in 0..self.members.len() {
            if self.members[number].tell(&()).await.is_err() {
                return Err(self.death_of(number).await);
            }
        }
        Ok(())
    }

    /// Ends workers that stand at their last barrier.
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.release().await?;
        for (number, member) in self.members.iter_mut().enumerate() {
            let status = member.process.wait().await?;
            if !status.success() {
                bail!(
                    "worker {number} (process {}) ended with {status}",
                    member.id
                );
            }
        }
        Ok(())
    }

    /// Kills all workers and waits until they are gone, so that none writes any more.
    pub(crate) async fn stop(mut self) {
        for member in &mut self.members {
            member.input = None;
            member.process.start_kill().ok();
        }
        for member in &mut self.members {
            member.process.wait().await.ok();
        }
    }

    async fn death_of(&mut self, number: usize) -> anyhow::Error {
        let member = &mut self.members[number];
        member.input = None;
        let status = match member.process.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        anyhow!("worker {number} (process {}) died: {status}", member.id)
    }
}

impl Member {
    fn start(program: &Path, global: &Global, subcommand: &str) -> Result<(Member, ChildStdout)> {
        let mut command = Command::new(program);
        // A group of its own: Ctrl-C reaches the leader alone, which then stops its workers.
        command
            .arg(subcommand)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0);
        if let Some(folder) = &global.volume {
            command.arg("--volume").arg(folder);
        }
        if let (Some(address), Some(key)) = (&global.address, &global.key) {
            command.arg("--address").arg(address);
            command.env("WEFT_KEY_FILE", key);
        }
        let mut process = command
            .spawn()
            .with_context(|| format!("cannot start a worker, {}", program.display()))?;
        let output = process.stdout.take().context("a worker without output")?;
        let member = Member {
            id: process.id().unwrap_or_default(),
            input: process.stdin.take(),
            process,
        };
        Ok((member, output))
    }

    async fn tell(&mut self, what: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        let input = self.input.as_mut().context("the worker is gone")?;
        input.write_all(&line).await?;
        Ok(input.flush().await?)
    }
}

async fn listen(number: usize, output: ChildStdout, tell: mpsc::Sender<(usize, Heard)>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let heard = match serde_json::from_str(&line) {
            Ok(said) => Heard::Said(said),
            Err(_) => Heard::Nonsense(line),
        };
        if tell.send((number, heard)).await.is_err() {
            return;
        }
    }
    tell.send((number, Heard::End)).await.ok();
}
