use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use weft_referee::{FindingKind, History, Report, check};

use crate::terminal::output::{self, count};

/// Judge recorded reads and writes by what their policies promise
///
/// Programs record what they read and write if WEFT_HISTORY names a folder, mounts with
/// -o history=DIR. All clients of a run must record, into one folder for that run. Files are best
/// written in the run itself: of bytes that were there before, the referee knows nothing. A
/// mount records only operations that bypass the kernel's pages: on files with seq-1, seq-2, for-1,
/// for-2, rel-1 and plug-ins.
#[derive(Args)]
#[command(after_help = "\
Examples:
  export WEFT_HISTORY=/tmp/run; mpirun my-program; weft referee /tmp/run
  weft mount /mnt/weft -o policy=rel-1,history=/tmp/run
  weft referee /tmp/run --json

A violation is an answer of Weft that the policies of the files do not allow. `relied` is an answer
that a program got although its policy did not promise it: it may get another one next time.

Exit code 0: nothing was found; 1: violations, or programs that relied on more than they asked for,
or something that could not be checked.")]
pub(crate) struct Referee {
    /// The folder of the histories
    dir: PathBuf,
    /// By how much the clocks of machines may differ [default: 0 on one machine, else 10ms]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    skew: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Referee {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut history = History::read(&self.dir)?;
        history.skew = self.skew.unwrap_or(history.skew);
        let report = check(&history);
        if self.json {
            output::json(&report)?;
        } else {
            show(&report)?;
        }
        Ok(if report.findings.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

fn show(report: &Report) -> Result<()> {
    for finding in &report.findings {
        let kind = match finding.kind {
            FindingKind::Violation => "violation",
            FindingKind::Relied => "relied",
            FindingKind::Unchecked => "unchecked",
        };
        output::line(format!("{kind}: {}", finding.text))?;
    }
    let found = |kind| {
        report
            .findings
            .iter()
            .filter(move |finding| finding.kind == kind)
            .count()
    };
    if report.unknown > 0 {
        output::line(format!(
            "{} returned bytes that were there before the recording: what they relied on is not known",
            count(report.unknown, "read")
        ))?;
    }
    output::line(format!(
        "{}, {}, {} and {}, {} of them in order: {}, {} that relied on more than was asked for",
        count(report.files, "file"),
        count(report.opens, "open"),
        count(report.reads, "read"),
        count(report.changes, "change"),
        report.in_order,
        count(found(FindingKind::Violation), "violation"),
        count(found(FindingKind::Relied), "read")
    ))
}
