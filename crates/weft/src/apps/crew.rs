//! Shared code of the applications' leaders and workers (`weft-crew`).

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::args::Global;
use crate::terminal::interrupt;

/// Builds the command lines of workers: this binary with a hidden subcommand, on the same volume.
pub(crate) fn worker_command(
    global: &Global,
    subcommand: &'static str,
) -> Result<impl FnMut() -> Command> {
    let program = std::env::current_exe()
        .context("cannot find the path of this program, to start workers")?;
    let global = global.clone();
    Ok(move || {
        let mut command = Command::new(&program);
        command.arg(subcommand);
        if let Some(folder) = global.folder() {
            command.arg("--volume").arg(folder);
        }
        if let (Some(address), Some(key)) = (global.address(), global.key()) {
            command.arg("--address").arg(address);
            command.env("WEFT_KEY_FILE", key);
        }
        if let Some(wire) = global.wire() {
            command.arg("--wire").arg(wire.name());
        }
        command
    })
}

/// Runs a worker on a new runtime.
pub(crate) fn run_worker(work: impl Future<Output = Result<()>>) -> ExitCode {
    let ran = crate::remote::connect::block_on(async { Ok(weft_crew::run_worker(work).await) });
    ran.unwrap_or(ExitCode::FAILURE)
}

/// Runs `work` until it ends or a signal arrives, whichever comes first. On a signal, `work` is
/// dropped.
pub(crate) async fn unless_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    interrupt::guard(work, || "nothing was replaced".to_owned()).await
}
