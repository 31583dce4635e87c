//! Lost writes, and which of them each open was told of.

use weft_proto::Code;

use crate::data::error::DataError;

/// The failures of a file.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u64,
    last: Option<DataError>,
}

/// How many failures one open was told of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported {
    /// By a flush or a sync.
    flush: u64,
    /// By a sync.
    sync: u64,
    /// By a write that was refused for lack of space.
    write: u64,
}

impl Failures {
    pub(super) fn record(&mut self, error: DataError) {
        self.count += 1;
        self.last = Some(error);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The marks of a new open: earlier failures do not concern it.
    pub(super) fn all_reported(&self) -> Reported {
        Reported {
            flush: self.count,
            sync: self.count,
            write: self.count,
        }
    }

    /// The last failure, if there was one after the first `count`.
    pub(super) fn since(&self, count: u64) -> Result<(), DataError> {
        if self.count == count {
            return Ok(());
        }
        self.last.clone().map_or(Ok(()), Err)
    }

    /// The failure that neither a flush nor a sync has reported to this open.
    pub(super) fn report_by_flush(&self, reported: &mut Reported) -> Result<(), DataError> {
        self.since(std::mem::replace(&mut reported.flush, self.count))
    }

    /// The failure that no sync has reported to this open.
    pub(super) fn report_by_sync(&self, reported: &mut Reported) -> Result<(), DataError> {
        reported.flush = self.count;
        self.since(std::mem::replace(&mut reported.sync, self.count))
    }

    /// If written bytes were refused for lack of space or quota: the open's next write fails, once,
    /// instead of being accepted. Sync and close report the failure, too.
    pub(super) fn report_by_write(&self, reported: &mut Reported) -> Result<(), DataError> {
        let Some(failure) = &self.last else {
            return Ok(());
        };
        if !matches!(failure.code(), Code::NoSpace | Code::QuotaExceeded) {
            return Ok(());
        }
        self.since(std::mem::replace(&mut reported.write, self.count))
    }
}
