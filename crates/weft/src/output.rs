//! What commands print: tables for people, JSON for programs.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};

use comfy_table::{Table, presets};
use serde::Serialize;
use weft_proto::Code;

/// A borderless table with these headings.
pub(crate) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(headings.to_vec());
    table
}

/// Prints a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string_pretty(value)?)
}

/// Prints a line, or a text of several. Unlike `println!` a reader that went away is an error, not a panic.
pub(crate) fn line(text: impl Display) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Says something on standard error. Unlike `eprintln!` nothing ends if nobody can hear it: what was to be said is said
/// by the exit code, too.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether colours and progress bars make sense on standard error.
pub(crate) fn interactive() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// A count of bytes for people.
pub(crate) fn bytes(n: u64) -> String {
    scaled(n as f64)
}

/// As [`bytes`], of a number that need not be whole, such as a rate.
pub(crate) fn scaled(bytes: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{value:.0} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// An error with its causes on one line. Causes that an error's own words include already are not said twice.
pub(crate) fn error(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether an error is about a disk without room, here or in the volume, or about a quota that is used up.
pub(crate) fn is_full(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let local = cause
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        let volume = cause.downcast_ref::<weft_client::Error>();
        matches!(
            local,
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
        ) || volume.is_some_and(|e| matches!(e.code(), Code::NoSpace | Code::QuotaExceeded))
    })
}

/// Whether an error is about a reader that went away.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|e| e.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    #[test]
    fn a_cause_is_said_once() {
        let inner = std::io::Error::other("refused");
        let middle = anyhow!(inner).context("cannot reach it: refused; start it");
        let outer = Err::<(), _>(middle).context("cannot copy").unwrap_err();
        assert_eq!(
            super::error(&outer),
            "cannot copy: cannot reach it: refused; start it"
        );
    }
}
