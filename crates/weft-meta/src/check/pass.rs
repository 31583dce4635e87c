//! A running check: the snapshot that it reads, and the observer of its progress and findings.

use std::ops::ControlFlow;

use weft_kv::Reader;
use weft_proto::fsck::Finding;

/// Receives the progress and the findings of a check; breaking ends it.
pub trait CheckObserver {
    /// So many more records and inodes were checked.
    fn seen(&mut self, records: u64, files: u64) -> ControlFlow<()>;
    /// Something is wrong.
    fn found(&mut self, finding: Finding);
}

/// A running check.
pub(super) struct Pass<'a> {
    reader: &'a dyn Reader,
    observer: &'a mut dyn CheckObserver,
    /// The observer ended the check.
    stopped: bool,
}

impl<'a> Pass<'a> {
    pub(super) fn new(reader: &'a dyn Reader, observer: &'a mut dyn CheckObserver) -> Pass<'a> {
        Pass {
            reader,
            observer,
            stopped: false,
        }
    }

    /// The snapshot that is checked.
    pub(super) fn reader(&self) -> &'a dyn Reader {
        self.reader
    }

    /// Whether the observer ended the check.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Reports progress to the observer; breaks where that ends the check.
    pub(super) fn seen(&mut self, records: u64, files: u64) -> ControlFlow<()> {
        let flow = self.observer.seen(records, files);
        self.stopped |= flow.is_break();
        flow
    }

    /// Reports a finding to the observer.
    pub(super) fn found(&mut self, finding: Finding) {
        self.observer.found(finding);
    }
}
