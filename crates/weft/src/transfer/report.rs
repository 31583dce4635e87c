//! The summary of a transfer.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use super::args::TransferArgs;
use crate::terminal::output;

/// The result of one part, for people and programs.
#[derive(Debug, Serialize)]
pub(crate) struct TransferSummary {
    /// The source.
    pub(crate) from: String,
    /// The target.
    pub(crate) to: String,
    /// Which part, of how many.
    pub(crate) part: String,
    /// The part's first byte, counted in the transfer.
    pub(crate) start: u64,
    /// One past its last byte.
    pub(crate) end: u64,
    /// Bytes of the whole transfer.
    pub(crate) length: u64,
    /// Where an interrupted transfer was resumed; `null`: at the part's start.
    pub(crate) resumed_at: Option<u64>,
    /// Bytes copied now, holes included.
    pub(crate) copied: u64,
    /// Bytes written now, holes not included.
    pub(crate) written: u64,
    /// Bytes that fell on ghosts (cells that the view implies and the file lacks) and were
    /// discarded.
    pub(crate) ghosts: u64,
    /// Both sides were read again and compared.
    pub(crate) verified: bool,
    /// How long it took, syncs and verifying included.
    pub(crate) seconds: f64,
    /// Copied bytes over seconds.
    pub(crate) mib_per_second: f64,
}

impl TransferSummary {
    /// Prints it in the requested form.
    pub(crate) fn print(&self, args: &TransferArgs) -> Result<ExitCode> {
        if args.json {
            output::json(self)?;
        } else if args.verbose || output::interactive() {
            output::say(self.line());
        }
        Ok(ExitCode::SUCCESS)
    }

    /// One line.
    fn line(&self) -> String {
        let resumed = self
            .resumed_at
            .map_or(String::new(), |at| format!(", resumed at byte {at}"));
        let verified = if self.verified { ", verified" } else { "" };
        format!(
            "part {}: {} of {} to {}, {} written, in {:.1} s, {:.1} MiB/s{resumed}{verified}",
            self.part,
            output::bytes(self.copied),
            self.from,
            self.to,
            output::bytes(self.written),
            self.seconds,
            self.mib_per_second
        )
    }
}

/// Measures the time of a transfer.
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(super) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    pub(super) fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(1 << 20) / self.seconds().max(1e-9)
    }
}
