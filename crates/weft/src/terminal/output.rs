//! What commands print: tables for people, JSON for programs, logs.
//!
//! Invariant: names, and text from peers, cannot control a terminal. Text is escaped here, where it
//! leaves the process, whichever code composed it. File data, and names that are a command's result
//! (`weft ls`), do not pass through here.

use std::fmt::{self, Display};
use std::io::{ErrorKind, IsTerminal, Write};

use comfy_table::presets;
use serde::Serialize;
use weft_proto::{Code, text};

pub(crate) use weft_layout::size::count;

/// A borderless table.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// Adds a row. Names in it cannot control a terminal or break a line.
    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let cells = cells.into_iter().map(|cell| text::one_line(&cell.into()));
        self.0.add_row(cells.collect::<Vec<_>>());
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A table with these headings.
pub(crate) fn table(headings: &[&str]) -> Table {
    let mut table = comfy_table::Table::new();
    let headings = headings.iter().map(|heading| text::one_line(heading));
    table
        .load_style(presets::NOTHING)
        .set_header(headings.collect::<Vec<_>>());
    Table(table)
}

/// Prints a value as indented JSON. Characters that could control a terminal are escaped as JSON
/// escapes them.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let text = json_text(value)?;
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

fn json_text(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    // Outside strings, line ends are the only control characters.
    let shown = |c| c == '\n' || !text::is_command(c);
    if text.chars().all(shown) {
        return Ok(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if shown(c) {
            out.push(c);
        } else {
            let _ = fmt::Write::write_fmt(&mut out, format_args!("\\u{:04x}", u32::from(c)));
        }
    }
    Ok(out)
}

/// Prints one line or several. Unlike with `println!`, a closed pipe is an error, not a panic.
pub(crate) fn line(text: impl Display) -> anyhow::Result<()> {
    let text = text::lines(&text.to_string());
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Prints a line on standard error. Unlike `eprintln!` it does not panic if standard error is
/// closed: the exit code carries the outcome as well.
pub(crate) fn say(text: impl Display) {
    let text = text::lines(&text.to_string());
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

/// An error with its causes on one line. A cause that the text already contains is not repeated.
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

/// Whether an error is about a full disk, here or in the volume, or about an exhausted quota.
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

/// Whether an error is about a closed pipe.
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
    fn a_cause_is_printed_once() {
        let inner = std::io::Error::other("refused");
        let middle = anyhow!(inner).context("cannot reach it: refused; start it");
        let outer = Err::<(), _>(middle).context("cannot copy").unwrap_err();
        assert_eq!(
            super::error(&outer),
            "cannot copy: cannot reach it: refused; start it"
        );
    }

    #[test]
    fn a_table_cell_cannot_break_a_line() {
        let mut table = super::table(&["a\x1b"]);
        table.add_row(["x\ny\x1b[31m"]);
        let text = table.to_string();
        assert!(!text.contains('\x1b'), "{text:?}");
        assert!(text.contains("x\\ny\\u{1b}[31m"), "{text:?}");
        assert_eq!(text.lines().count(), 2, "{text:?}");
    }

    #[test]
    fn json_cannot_control_a_terminal_and_parses_to_the_same_value() {
        let name = "x\u{202e}\u{9b}2J\x1b\n";
        let text = super::json_text(&[name]).unwrap();
        assert!(!text.contains(|c| c != '\n' && super::text::is_command(c)));
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [name]);
    }
}
