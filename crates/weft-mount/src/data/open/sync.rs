//! Flush and sync: when bytes are at the servers, when they survive power loss, and which failures
//! are reported.

use weft_client::Attributes;

use super::open_data::OpenData;
use crate::data::error::DataError;
use crate::data::file::FileData;
use crate::data::state::Report;

/// While it lives, bytes that are sent survive power loss on arrival; not where a sync of
/// everything is needed anyway.
#[must_use = "dropped, it has no effect"]
pub struct DurableSends<'a>(Option<&'a FileData>);

impl<'a> DurableSends<'a> {
    fn begin(data: &'a FileData) -> DurableSends<'a> {
        let enough = data.state().begin_durable_sends();
        DurableSends(enough.then_some(data))
    }
}

impl Drop for DurableSends<'_> {
    fn drop(&mut self) {
        if let Some(data) = self.0 {
            data.state().end_durable_sends();
        }
    }
}

/// A sync that has not succeeded: dropped, its bytes count as unsynced again.
struct PendingSync<'a>(&'a FileData);

impl Drop for PendingSync<'_> {
    fn drop(&mut self) {
        self.0.state().note_unsynced();
    }
}

impl OpenData {
    /// Writes everything that any open of this file has written to the servers. Reports, once, what
    /// could not be written since a flush or a sync last reported to this open. Returns the
    /// service's attributes of the file if this flush stored all of its bytes with the metadata.
    ///
    /// A sync reports the failure again: a program that closes a copy of the descriptor, a child
    /// for example, may ignore it.
    pub async fn flush(&self) -> Result<Option<Attributes>, DataError> {
        self.flush_and_report(Report::Flush).await
    }

    /// As [`OpenData::flush`]; reports, once, what could not be written since a sync last reported
    /// to this open.
    pub async fn flush_to_sync(&self) -> Result<Option<Attributes>, DataError> {
        self.flush_and_report(Report::Sync).await
    }

    async fn flush_and_report(&self, report: Report) -> Result<Option<Attributes>, DataError> {
        // The reply to a batch that is in flight now may be older than this flush.
        let at_rest = self.data().state().begin_flush();
        self.data().flush().await;
        // What the policy delays leaves at a close.
        self.file().commit().await?;
        let mut state = self.data().state();
        state.report(report, self.number())?;
        let stored = state.take_stored();
        Ok(stored.filter(|_| at_rest))
    }

    /// Sends everything that was written; the next [`OpenData::flush`] reports what could not be.
    pub async fn send(&self) {
        self.data().flush().await;
    }

    /// When the file was last written here, in nanoseconds since the epoch; 0: never.
    pub fn written(&self) -> i64 {
        self.data().state().written()
    }

    /// Makes bytes that are sent while the result lives durable on arrival, so that an
    /// [`OpenData::sync`] that follows needs no further request, if everything else is durable
    /// already.
    pub fn durable_sends(&self) -> DurableSends<'_> {
        DurableSends::begin(self.data())
    }

    /// As [`OpenData::flush`], and everything this mount has written to the file survives power
    /// loss. Dirty bytes are sent as durable: no further request, if everything else is durable
    /// already.
    pub async fn sync(&self) -> Result<(), DataError> {
        let durable = self.durable_sends();
        self.flush_to_sync().await?;
        drop(durable);
        let data = self.data();
        let in_cells = data.state().is_in_cells();
        let _one = data.sync_turn().await;
        if in_cells {
            // Another attachment may have moved them: then this one does not know what to sync.
            data.require_cells(self.file()).await?;
            // What arrives from here on belongs to a later sync.
            let unsynced = data.state().take_unsynced();
            if !unsynced {
                // Another open may have synced, and learned of losses.
                return Ok(self.file().losses()?);
            }
        }
        // Also if the caller is cancelled.
        let pending = PendingSync(data);
        // What was acknowledged survived the server's restart, so a sync after it covers that, too.
        let outages = data.resources().outages();
        outages.retry(|| self.file().sync()).await?;
        std::mem::forget(pending);
        Ok(())
    }

    /// Failures so far of what any open of the file wrote.
    pub fn failures(&self) -> u64 {
        self.data().state().failures()
    }

    /// The last failure, if there was one after the first `failures`; whichever open it was
    /// reported to.
    pub fn failed_since(&self, failures: u64) -> Result<(), DataError> {
        self.data().state().failed_since(failures)
    }
}
