//! Rules of flushes, syncs and closes: which failure an open is told of, and what a flush learned.

use weft_client::Attributes;

use super::FileState;
use crate::data::error::DataError;

/// The call that reports failures to an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::data) enum Report {
    /// Reports what neither a flush nor a sync has reported.
    Flush,
    /// Reports what no sync has reported.
    Sync,
}

/// What an open tells the service at its close.
pub(in crate::data) struct LastWrite {
    /// One past the last byte it wrote; `None` after a loss, where that is unknown.
    pub(in crate::data) end: Option<u64>,
    /// When it last wrote.
    pub(in crate::data) time: i64,
}

impl FileState {
    /// When the file was last written here, in nanoseconds since the epoch; 0: never.
    pub(in crate::data) fn written(&self) -> i64 {
        self.opens.written()
    }

    /// Failures so far.
    pub(in crate::data) fn failures(&self) -> u64 {
        self.failures.count()
    }

    /// The last failure, if there was one after the first `count`.
    pub(in crate::data) fn failed_since(&self, count: u64) -> Result<(), DataError> {
        self.failures.since(count)
    }

    /// A flush begins; returns whether no batch is in flight, whose reply would be about an earlier
    /// state.
    pub(in crate::data) fn begin_flush(&mut self) -> bool {
        self.content.forget_stored();
        self.write_back.is_idle()
    }

    /// The failure that is still to be reported to an open.
    pub(in crate::data) fn report(&mut self, report: Report, open: u64) -> Result<(), DataError> {
        let Some(reported) = self.opens.reported(open) else {
            return Ok(());
        };
        match report {
            Report::Flush => self.failures.report_by_flush(reported),
            Report::Sync => self.failures.report_by_sync(reported),
        }
    }

    /// The service's attributes after a store of everything that was written until now; once.
    pub(in crate::data) fn take_stored(&mut self) -> Option<Attributes> {
        self.content.take_stored(self.opens.written())
    }

    /// An open ends; returns what it tells the service, if it wrote to the cells. Its bytes may
    /// have gone through another attachment.
    pub(in crate::data) fn remove_open(&mut self, open: u64) -> Option<LastWrite> {
        let (end, time) = self.opens.remove(open)?;
        let complete = self.failures.count() == 0;
        self.content.is_in_cells().then_some(LastWrite {
            end: complete.then_some(end),
            time,
        })
    }
}
