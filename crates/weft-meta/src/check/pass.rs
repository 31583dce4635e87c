//! A check under way: what it reads, and the watcher that hears of its progress and findings.

use std::ops::ControlFlow;

use weft_kv::Reader;
use weft_proto::fsck::Finding;

/// Where a check tells how far it is and what it found; breaking ends it.
pub trait CheckObserver {
    /// This many records and inodes more were looked at.
    fn seen(&mut self, records: u64, files: u64) -> ControlFlow<()>;
    /// Something is wrong.
    fn found(&mut self, finding: Finding);
}

/// A check under way.
pub(super) struct Pass<'a> {
    reader: &'a dyn Reader,
    watcher: &'a mut dyn CheckObserver,
    /// The watcher does not want any more.
    stopped: bool,
}

impl<'a> Pass<'a> {
    pub(super) fn new(reader: &'a dyn Reader, watcher: &'a mut dyn CheckObserver) -> Pass<'a> {
        Pass {
            reader,
            watcher,
            stopped: false,
        }
    }

    /// The snapshot that is checked.
    pub(super) fn reader(&self) -> &'a dyn Reader {
        self.reader
    }

    /// Whether the watcher wants no more.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Tells the watcher how far the check is; breaks where it wants no more.
    pub(super) fn seen(&mut self, records: u64, files: u64) -> ControlFlow<()> {
        let on = self.watcher.seen(records, files);
        self.stopped |= on.is_break();
        on
    }

    /// Tells the watcher of a finding.
    pub(super) fn found(&mut self, finding: Finding) {
        self.watcher.found(finding);
    }
}
