//! A leader's side of its workers.

use std::process::Stdio;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::{CrewError, Said};

/// The workers of one application.
pub struct Crew {
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
    /// Starts one worker per job; `command` makes the command of each, this crate sees to its
    /// pipes.
    pub async fn start<J: Serialize>(
        mut command: impl FnMut() -> std::process::Command,
        jobs: &[J],
    ) -> Result<Crew, CrewError> {
        let (tell, heard) = mpsc::channel(64);
        let mut members = Vec::with_capacity(jobs.len());
        for (number, job) in jobs.iter().enumerate() {
            let (mut member, output) = Member::start(command())?;
            tokio::spawn(listen(number, output, tell.clone()));
            // A worker that is dead already says so when it is listened to.
            member.tell(&line(job)?).await;
            members.push(member);
        }
        Ok(Crew { members, heard })
    }

    /// Waits until every worker has arrived; returns their reports in the workers' order.
    pub async fn barrier<R: DeserializeOwned>(
        &mut self,
        mut progress: impl FnMut(u64),
    ) -> Result<Vec<R>, CrewError> {
        let mut reports: Vec<Option<R>> = self.members.iter().map(|_| None).collect();
        while reports.iter().any(Option::is_none) {
            let Some((worker, heard)) = self.heard.recv().await else {
                return Err(CrewError::Empty);
            };
            match heard {
                Heard::Said(Said::Progress(bytes)) => progress(bytes),
                Heard::Said(Said::Arrived(report)) => {
                    let line = report.to_string();
                    let report = serde_json::from_value(report);
                    reports[worker] =
                        Some(report.map_err(|_| CrewError::Nonsense { worker, line })?);
                }
                Heard::Said(Said::Failed(message)) => {
                    return Err(CrewError::Failed { worker, message });
                }
                Heard::Nonsense(line) => return Err(CrewError::Nonsense { worker, line }),
                Heard::End => return Err(self.death_of(worker).await),
            }
        }
        Ok(reports.into_iter().flatten().collect())
    }

    /// Lets every worker pass the barrier.
    pub async fn release(&mut self) -> Result<(), CrewError> {
        self.release_with(&vec![(); self.members.len()]).await
    }

    /// Lets every worker pass the barrier and tells each what comes next.
    pub async fn release_with<T: Serialize>(&mut self, orders: &[T]) -> Result<(), CrewError> {
        if orders.len() != self.members.len() {
            return Err(CrewError::Orders {
                orders: orders.len(),
                workers: self.members.len(),
            });
        }
        // Encoded before any worker starts, so that no worker has a head start.
        let lines: Vec<Vec<u8>> = orders.iter().map(line).collect::<Result<_, _>>()?;
        for (worker, line) in lines.iter().enumerate() {
            if !self.members[worker].tell(line).await {
                return Err(self.death_of(worker).await);
            }
        }
        Ok(())
    }

    /// Ends workers that stand at their last barrier.
    pub async fn finish(mut self) -> Result<(), CrewError> {
        self.release().await?;
        self.ended().await
    }

    /// As [`Crew::finish`], with a last order.
    pub async fn finish_with<T: Serialize>(mut self, orders: &[T]) -> Result<(), CrewError> {
        self.release_with(orders).await?;
        self.ended().await
    }

    async fn ended(mut self) -> Result<(), CrewError> {
        for (worker, member) in self.members.iter_mut().enumerate() {
            let status = match member.process.wait().await {
                Ok(status) if status.success() => continue,
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            return Err(CrewError::Died {
                worker,
                process: member.id,
                status,
            });
        }
        Ok(())
    }

    /// Kills all workers and waits until they are gone, so that none writes any more.
    pub async fn stop(mut self) {
        for member in &mut self.members {
            member.input = None;
            member.process.start_kill().ok();
        }
        for member in &mut self.members {
            member.process.wait().await.ok();
        }
    }

    async fn death_of(&mut self, worker: usize) -> CrewError {
        let member = &mut self.members[worker];
        member.input = None;
        let status = match member.process.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        CrewError::Died {
            worker,
            process: member.id,
            status,
        }
    }
}

impl Member {
    fn start(command: std::process::Command) -> Result<(Member, ChildStdout), CrewError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |source| CrewError::Start {
            program: program.clone(),
            source,
        };
        let mut command = Command::from(command);
        // A group of its own: Ctrl-C reaches the leader alone, which then stops its workers.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0);
        let mut process = command.spawn().map_err(failed)?;
        let output = process.stdout.take();
        let output = output.ok_or_else(|| failed(std::io::Error::other("it has no output")))?;
        let member = Member {
            id: process.id().unwrap_or_default(),
            input: process.stdin.take(),
            process,
        };
        Ok((member, output))
    }

    /// Sends a line; false if the worker has closed its pipe.
    async fn tell(&mut self, line: &[u8]) -> bool {
        let Some(input) = self.input.as_mut() else {
            return false;
        };
        input.write_all(line).await.is_ok() && input.flush().await.is_ok()
    }
}

fn line(what: &impl Serialize) -> Result<Vec<u8>, CrewError> {
    let mut line = serde_json::to_vec(what).map_err(CrewError::Encode)?;
    line.push(b'\n');
    Ok(line)
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
