//! A worker's side of its leader: the job, the barrier, and how much is done.

use std::fmt::Display;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::{CrewError, Said};

/// How often progress is told, at most.
const PROGRESS_MILLIS: u128 = 100;

/// The process that started this one.
pub struct Leader {
    lines: tokio::sync::Mutex<mpsc::Receiver<String>>,
    untold: AtomicU64,
    told: Mutex<Instant>,
}

impl Leader {
    /// Reads the job that this worker was started for.
    pub async fn job<J: DeserializeOwned>() -> Result<(Leader, J), CrewError> {
        let (forward, mut lines) = mpsc::channel(4);
        // A thread, not a task: when the leader dies, the worker must go whatever it is doing.
        let listen = move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { break };
                if forward.blocking_send(line).is_err() {
                    break;
                }
            }
            if !forward.is_closed() {
                std::process::exit(1);
            }
        };
        let thread = std::thread::Builder::new().name("weft-leader".into());
        thread.spawn(listen).map_err(CrewError::Thread)?;
        let line = lines.recv().await.ok_or(CrewError::LeaderGone)?;
        let job = understood(&line)?;
        let leader = Leader {
            lines: tokio::sync::Mutex::new(lines),
            untold: AtomicU64::new(0),
            told: Mutex::new(Instant::now()),
        };
        Ok((leader, job))
    }

    /// Counts bytes moved, and reports them to the leader from time to time.
    pub fn progress(&self, bytes: u64) {
        self.untold.fetch_add(bytes, Ordering::Relaxed);
        let Some(mut told) = self.told.try_lock() else {
            return;
        };
        if told.elapsed().as_millis() >= PROGRESS_MILLIS {
            *told = Instant::now();
            say(&Said::Progress(self.untold.swap(0, Ordering::Relaxed)));
        }
    }

    /// Waits at the barrier until all workers have arrived.
    pub async fn barrier(&self, report: &impl Serialize) -> Result<(), CrewError> {
        self.order(report).await
    }

    /// Waits at the barrier for the next order.
    pub async fn order<T: DeserializeOwned>(
        &self,
        report: &impl Serialize,
    ) -> Result<T, CrewError> {
        say(&Said::Progress(self.untold.swap(0, Ordering::Relaxed)));
        let report = serde_json::to_value(report).map_err(CrewError::Encode)?;
        say(&Said::Arrived(report));
        let line = self.lines.lock().await.recv().await;
        understood(&line.ok_or(CrewError::LeaderGone)?)
    }
}

/// Runs a worker, and reports its error to the leader, which shows it to the user.
pub async fn run_worker<E: Display>(work: impl Future<Output = Result<(), E>>) -> ExitCode {
    match work.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&Said::Failed(format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn understood<T: DeserializeOwned>(line: &str) -> Result<T, CrewError> {
    serde_json::from_str(line).map_err(|e| CrewError::NoJob {
        reason: e.to_string(),
    })
}

fn say(what: &Said) {
    let mut line = serde_json::to_vec(what).expect("what is said is plain data");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    // A leader that does not listen any more is gone: its end of our input says so, too.
    if out.write_all(&line).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}
