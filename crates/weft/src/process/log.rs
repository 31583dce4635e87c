//! The log of a long-running process, on standard error.
//!
//! A background process writes to a file that its parent opened. Nothing else truncates that file,
//! so the process rotates it: at 16 MiB the file becomes `NAME.1`, the previous one `NAME.2` and so
//! on, and the oldest is removed. Other output on standard error, such as panic messages, follows
//! to the new file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use weft_proto::text;

use crate::limits::{LOG_BYTES_MAX, LOG_ROTATION_RETRY_BYTES, LOGS_KEPT};
use crate::process::private_files::open_log;

/// Starts the log. `background`: standard error is a file that belongs to the volume.
pub(crate) fn start(level: &str, background: bool) {
    let filter = EnvFilter::try_from_env("WEFT_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let rotated = background.then(RotatedLog::of_stderr).flatten();
    let rotated = rotated.map(|rotated| Arc::new(Mutex::new(rotated)));
    let writer = BoxMakeWriter::new(move || Line(rotated.clone()));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        // It would report a full disk in the log on that disk, and panic.
        .log_internal_errors(false)
        // Colours could not be told from escape sequences in a name.
        .with_ansi(false)
        .init();
}

/// A log that is rotated.
struct RotatedLog {
    path: PathBuf,
    file: File,
    bytes: u64,
    max: u64,
    /// Whether standard error moves to the new file, too.
    is_stderr: bool,
}

impl RotatedLog {
    /// The file behind standard error, if it has a path.
    fn of_stderr() -> Option<RotatedLog> {
        let path = fs::read_link("/proc/self/fd/2").ok()?;
        let here = fs::symlink_metadata(&path).ok()?;
        let open = fs::metadata("/proc/self/fd/2").ok()?;
        let same = (here.dev(), here.ino()) == (open.dev(), open.ino());
        if !(same && here.is_file()) {
            return None;
        }
        Some(RotatedLog {
            file: open_log(&path).ok()?,
            path,
            bytes: here.len(),
            max: LOG_BYTES_MAX,
            is_stderr: true,
        })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.bytes > 0 && self.bytes + length > self.max {
            self.bytes = match self.rotate() {
                Ok(()) => 0,
                // The file keeps growing, so that no line is lost.
                Err(_) => self.max.saturating_sub(LOG_ROTATION_RETRY_BYTES),
            };
        }
        self.bytes += length;
        self.file.write_all(line)
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..LOGS_KEPT).rev() {
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

/// Writes each event as one line, whatever it contains, to the rotated log or else to standard
/// error.
struct Line(Option<Arc<Mutex<RotatedLog>>>);

impl Write for Line {
    /// `tracing` hands over each event whole, with its line end.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = format!("{}\n", text::one_line(text.trim_end_matches('\n')));
        match &self.0 {
            Some(rotated) => rotated.lock().write(line.as_bytes())?,
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
    fn a_rotated_log_stays_within_its_bound_and_keeps_the_latest_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.log");
        let mut log = RotatedLog {
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
        for number in (1..=LOGS_KEPT).rev() {
            let text = fs::read_to_string(numbered(&path, number)).unwrap();
            assert!(text.len() <= 1000 && text.len() > 900);
            all += &text;
        }
        all += &fs::read_to_string(&path).unwrap();
        assert!(!numbered(&path, LOGS_KEPT + 1).exists());
        let kept = all.lines().count() as u32;
        let last: String = (lines - kept..lines).map(line).collect();
        assert!(kept > 4 * 38 && all == last, "{all}");
    }

    #[test]
    fn an_event_is_one_line_without_control_characters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.log");
        let log = RotatedLog {
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
