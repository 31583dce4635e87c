//! What a process that runs for long has to say, on standard error.
//!
//! A process in the background writes to a file that its starter opened, and nobody empties that. So it is turned over: at 16 MiB the
//! file becomes `NAME.1`, the one before `NAME.2` and so on, and the oldest is removed. Whatever else goes to standard error, as what
//! a panic says, goes to the new file, too.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use weft_proto::text;

use crate::process::private_files::open_log;

/// A log of so many bytes is turned over, and so many older ones are kept: 80 MiB for each process.
const BYTES_MAX: u64 = 16 << 20;
const KEPT: u32 = 4;
/// After a turn that failed the next one is tried when so much was written.
const AGAIN: u64 = 1 << 20;

/// Begins the log. `background`: standard error is a file that belongs to the volume.
pub(crate) fn start(level: &str, background: bool) {
    let filter = EnvFilter::try_from_env("WEFT_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let turned = background.then(Turned::of_stderr).flatten();
    let turned = turned.map(|turned| Arc::new(Mutex::new(turned)));
    let writer = BoxMakeWriter::new(move || Line(turned.clone()));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        // Where the log's own disk is full it would say so there, and panic.
        .log_internal_errors(false)
        // Colours could not be told from the commands of a name.
        .with_ansi(false)
        .init();
}

/// A log that is turned over.
struct Turned {
    path: PathBuf,
    file: File,
    bytes: u64,
    max: u64,
    /// Standard error is to follow.
    is_stderr: bool,
}

impl Turned {
    /// The file that standard error is, if it is one that can be found.
    fn of_stderr() -> Option<Turned> {
        let path = fs::read_link("/proc/self/fd/2").ok()?;
        let here = fs::symlink_metadata(&path).ok()?;
        let open = fs::metadata("/proc/self/fd/2").ok()?;
        let same = (here.dev(), here.ino()) == (open.dev(), open.ino());
        if !(same && here.is_file()) {
            return None;
        }
        Some(Turned {
            file: open_log(&path).ok()?,
            path,
            bytes: here.len(),
            max: BYTES_MAX,
            is_stderr: true,
        })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.bytes > 0 && self.bytes + length > self.max {
            self.bytes = match self.turn_over() {
                Ok(()) => 0,
                // It grows on: nothing of what is said is lost for that.
                Err(_) => self.max.saturating_sub(AGAIN),
            };
        }
        self.bytes += length;
        self.file.write_all(line)
    }

    fn turn_over(&mut self) -> io::Result<()> {
        for number in (1..KEPT).rev() {
            match fs::rename(
                numbered(&self.path, number),
                numbered(&self.path, number + 1),
            ) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, numbered(&self.path, 1))?;
        self.file = open_log(&self.path).map_err(io::Error::other)?;
        if self.is_stderr {
            rustix::stdio::dup2_stderr(&self.file)?;
        }
        Ok(())
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    path.with_added_extension(number.to_string())
}

/// Writes each event as one line whatever is in it, to a log that is turned over or else to standard error.
struct Line(Option<Arc<Mutex<Turned>>>);

impl Write for Line {
    /// The log hands over each event whole, with the end of its line.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = format!("{}\n", text::one_line(text.trim_end_matches('\n')));
        match &self.0 {
            Some(turned) => turned.lock().write(line.as_bytes())?,
            None => io::stderr().lock().write_all(line.as_bytes())?,
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_takes_no_more_than_its_bound_and_keeps_the_latest_lines_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.log");
        let mut log = Turned {
            file: open_log(&path).unwrap(),
            path: path.clone(),
            bytes: 0,
            max: 1000,
            is_stderr: false,
        };
        let line = |number: u32| format!("line {number:05} ............\n");
        let lines = 1000;
        for number in 0..lines {
            log.write(line(number).as_bytes()).unwrap();
        }
        let mut all = String::new();
        for number in (1..=KEPT).rev() {
            let text = fs::read_to_string(numbered(&path, number)).unwrap();
            assert!(text.len() <= 1000 && text.len() > 900);
            all += &text;
        }
        all += &fs::read_to_string(&path).unwrap();
        assert!(!numbered(&path, KEPT + 1).exists());
        let kept = all.lines().count() as u32;
        let last: String = (lines - kept..lines).map(line).collect();
        assert!(kept > 4 * 38 && all == last, "{all}");
    }

    #[test]
    fn an_event_is_one_line_that_commands_no_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.log");
        let log = Turned {
            file: open_log(&path).unwrap(),
            path: path.clone(),
            bytes: 0,
            max: 1000,
            is_stderr: false,
        };
        let event = b"a\nb \xff\x1b[2J\n";
        let taken = Line(Some(Arc::new(Mutex::new(log)))).write(event);
        assert_eq!(taken.unwrap(), event.len());
        let said = fs::read_to_string(&path).unwrap();
        assert_eq!(said, "a\\nb \u{fffd}\\u{1b}[2J\n");
    }
}
