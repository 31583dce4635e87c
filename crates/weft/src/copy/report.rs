//! The counters, the progress and the summary of a copy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use indicatif::ProgressBar;
use serde::Serialize;
use weft_client::FileKind;

use crate::terminal::output;

/// Counts while the copy runs.
pub(super) struct RecordDigest {
    started: Instant,
    files: AtomicU64,
    directories: AtomicU64,
    others: AtomicU64,
    bytes: AtomicU64,
}

/// Shows the progress of a copy, with the total once it is known.
pub(super) struct CopyProgress {
    bar: ProgressBar,
    found: AtomicU64,
}

impl CopyProgress {
    pub(super) fn of(bar: ProgressBar) -> CopyProgress {
        CopyProgress {
            bar,
            found: AtomicU64::new(0),
        }
    }

    /// Adds bytes to copy.
    pub(super) fn found(&self, bytes: u64) {
        self.found.fetch_add(bytes, Ordering::Relaxed);
        // Has no effect as long as the total is not known.
        self.bar.inc_length(bytes);
    }

    /// Nothing more will be found.
    pub(super) fn all_found(&self) {
        if self.bar.length().is_none() {
            self.bar.set_length(self.found.load(Ordering::Relaxed));
        }
    }

    /// Sets how many files are copied.
    pub(super) fn files(&self, files: u64) {
        if !self.bar.is_hidden() {
            self.bar.set_message(format!("copying, {files} files:"));
        }
    }
}

/// The result of a copy, for people and programs.
#[derive(Debug, Serialize)]
pub(crate) struct CopySummary {
    /// Names of regular files.
    pub(crate) files: u64,
    /// Directories.
    pub(crate) directories: u64,
    /// Symbolic links, fifos, sockets and device nodes.
    pub(crate) others: u64,
    /// Sizes of the files, holes included.
    pub(crate) bytes: u64,
    /// How long it took, the sync at the end included.
    pub(crate) seconds: f64,
    /// Bytes over seconds.
    pub(crate) mib_per_second: f64,
    /// Entries that could not be copied.
    pub(crate) failures: u64,
}

impl Default for RecordDigest {
    fn default() -> Self {
        RecordDigest {
            started: Instant::now(),
            files: AtomicU64::new(0),
            directories: AtomicU64::new(0),
            others: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }
}

impl RecordDigest {
    pub(super) fn entry(&self, kind: FileKind) {
        let counter = match kind {
            FileKind::Regular => &self.files,
            FileKind::Directory => &self.directories,
            _ => &self.others,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// The counters as text for a message.
    pub(super) fn so_far(&self) -> String {
        format!(
            "{} files, {} directories and {} others ({})",
            self.files(),
            self.directories.load(Ordering::Relaxed),
            self.others.load(Ordering::Relaxed),
            output::bytes(self.bytes.load(Ordering::Relaxed))
        )
    }

    pub(super) fn summary(&self, failures: u64) -> CopySummary {
        let seconds = self.started.elapsed().as_secs_f64();
        let bytes = self.bytes.load(Ordering::Relaxed);
        CopySummary {
            files: self.files.load(Ordering::Relaxed),
            directories: self.directories.load(Ordering::Relaxed),
            others: self.others.load(Ordering::Relaxed),
            bytes,
            seconds,
            mib_per_second: bytes as f64 / f64::from(1 << 20) / seconds.max(1e-9),
            failures,
        }
    }
}

impl CopySummary {
    /// One line.
    pub(crate) fn line(&self) -> String {
        let failures = if self.failures > 0 {
            format!("; {} failed", self.failures)
        } else {
            String::new()
        };
        format!(
            "{}, {}, {}, {} in {:.1} s, {:.1} MiB/s{failures}",
            output::count(self.files, "file"),
            output::count(self.directories, "directory"),
            output::count(self.others, "other"),
            output::bytes(self.bytes),
            self.seconds,
            self.mib_per_second
        )
    }
}
