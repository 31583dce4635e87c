//! Ctrl-C, `kill` and a closed terminal: how a long command ends before its work is done.
//!
//! The first SIGINT, SIGTERM or SIGHUP after the first [`guard`] or [`Orderly`] asks the command to
//! end. Work under a [`guard`] is dropped; work in an orderly section ([`Orderly`]), which ends by
//! itself, checks [`asked`] or [`check`]. Either way the command reports on standard error how far
//! it came, the state of its target and how to continue, and its exit code is 128 plus the signal's
//! number. A second signal ends the process at once.
//!
//! A signal that the process was started to ignore (`nohup`, a background job of a script) stays
//! ignored.
//!
//! Deliberately absent: commands that only print, or send a single request. The signal itself ends
//! those, and there is nothing to report.

use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::Result;
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::limits::SHUTDOWN_NOTICE_DELAY;
use crate::terminal::output;

/// The signal state of the process.
static STATE: OnceLock<watch::Sender<State>> = OnceLock::new();

#[derive(Clone, Copy, Debug, Default)]
struct State {
    signal: Option<Signal>,
    /// Number of orderly sections.
    orderly: usize,
}

/// The signals by which a user ends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Hangup,
    Interrupt,
    Terminate,
}

/// A signal ended the command.
#[derive(Debug, Error)]
#[error("{}{}{state}", signal.word(), if state.is_empty() { "" } else { ": " })]
pub(crate) struct Interrupted {
    signal: Signal,
    /// What was done, the state of the target, and how to continue.
    state: String,
}

/// An orderly section. While one exists, signals drop no work: its holder checks for them.
pub(crate) struct Orderly(());

impl Signal {
    const ALL: [Signal; 3] = [Signal::Hangup, Signal::Interrupt, Signal::Terminate];

    fn kind(self) -> SignalKind {
        match self {
            Signal::Hangup => SignalKind::hangup(),
            Signal::Interrupt => SignalKind::interrupt(),
            Signal::Terminate => SignalKind::terminate(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Signal::Hangup => "hung up",
            Signal::Interrupt => "interrupted",
            Signal::Terminate => "terminated",
        }
    }

    /// The exit code that a shell shows for a process ended by the signal.
    fn exit_code(self) -> u8 {
        128 + match self {
            Signal::Hangup => 1,
            Signal::Interrupt => 2,
            Signal::Terminate => 15,
        }
    }

    /// The error of a command that this signal ended.
    pub(crate) fn ended(self, state: impl Into<String>) -> anyhow::Error {
        let state = state.into();
        Interrupted {
            signal: self,
            state,
        }
        .into()
    }
}

impl Orderly {
    /// Begins an orderly section.
    ///
    /// # Errors
    /// Signals cannot be listened to.
    pub(crate) fn begin() -> Result<Orderly> {
        listen()?;
        state().send_modify(|state| state.orderly += 1);
        Ok(Orderly(()))
    }
}

impl Drop for Orderly {
    fn drop(&mut self) {
        state().send_modify(|state| state.orderly -= 1);
    }
}

/// Runs `work` until it ends or a signal arrives, whichever comes first. On a signal, `work` is
/// dropped, and `state` describes how far it came.
///
/// # Errors
/// Those of `work`; [`Interrupted`]; signals cannot be listened to.
pub(crate) async fn guard<T>(
    work: impl Future<Output = Result<T>>,
    state: impl FnOnce() -> String,
) -> Result<T> {
    listen()?;
    tokio::select! {
        biased;
        done = work => done,
        signal = wait(|now| now.orderly == 0) => Err(signal.ended(state())),
    }
}

/// Completes when a signal asks for an end.
pub(crate) async fn asked() -> Signal {
    wait(|_| true).await
}

/// The signal that asked for an end, if one has arrived.
pub(crate) fn pending() -> Option<Signal> {
    state().borrow().signal
}

/// Fails once a signal has arrived: for loops in orderly sections.
pub(crate) fn check() -> Result<()> {
    pending().map_or(Ok(()), |signal| Err(signal.ended("")))
}

/// The signal behind this error, if a signal ended the work.
pub(crate) fn of(error: &anyhow::Error) -> Option<Signal> {
    error.downcast_ref::<Interrupted>().map(|i| i.signal)
}

/// The exit code of a command that ended with this error, if a signal ended it.
pub(crate) fn exit_code(error: &anyhow::Error) -> Option<ExitCode> {
    of(error).map(|signal| ExitCode::from(signal.exit_code()))
}

fn state() -> &'static watch::Sender<State> {
    STATE.get_or_init(|| watch::Sender::new(State::default()))
}

async fn wait(when: impl Fn(&State) -> bool) -> Signal {
    let mut changes = state().subscribe();
    loop {
        let now = *changes.borrow_and_update();
        if let Some(signal) = now.signal.filter(|_| when(&now)) {
            return signal;
        }
        // The sender is never dropped.
        let _ = changes.changed().await;
    }
}

/// Listens for signals from now on; called once in a process.
fn listen() -> Result<()> {
    static LISTENING: OnceLock<()> = OnceLock::new();
    if LISTENING.set(()).is_err() {
        return Ok(());
    }
    let (sender, mut received) = mpsc::unbounded_channel();
    let ignored = ignored();
    for kind in Signal::ALL {
        if ignored & 1 << (kind.exit_code() - 129) != 0 {
            continue;
        }
        let (mut signals, sender) = (signal(kind.kind())?, sender.clone());
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                let _ = sender.send(kind);
            }
        });
    }
    tokio::spawn(async move {
        let Some(first) = received.recv().await else {
            return;
        };
        state().send_modify(|state| state.signal = Some(first));
        let second = tokio::select! {
            second = received.recv() => second,
            () = tokio::time::sleep(SHUTDOWN_NOTICE_DELAY) => {
                output::say("weft: cleaning up before the end; a second signal ends at once");
                received.recv().await
            }
        };
        std::process::exit(second.unwrap_or(first).exit_code().into());
    });
    Ok(())
}

/// The signals that this process was started to ignore, as a bit mask; 0 if the kernel does not
/// say.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_signal_sets_the_exit_code_under_any_error_context() {
        for (signal, code, word) in [
            (Signal::Interrupt, 130, "interrupted: half"),
            (Signal::Terminate, 143, "terminated: half"),
            (Signal::Hangup, 129, "hung up: half"),
        ] {
            let error = Err::<(), _>(signal.ended("half"))
                .context("more")
                .unwrap_err();
            assert_eq!(exit_code(&error), Some(ExitCode::from(code)));
            assert!(format!("{error:#}").ends_with(word));
        }
        assert_eq!(exit_code(&anyhow::anyhow!("other")), None);
    }
}
