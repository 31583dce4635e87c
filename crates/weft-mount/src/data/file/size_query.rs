//! The file's size: known, or asked of the servers.

use weft_client::File;

use super::file_data::FileData;
use crate::data::error::DataError;
use crate::data::state::SizeQueryTicket;
use crate::limits::SIZE_QUERIES_MAX;

/// A query for the servers' size; in flight until it is answered or dropped.
#[must_use = "dropped, the query counts as cancelled"]
pub struct SizeQuery<'a> {
    data: &'a FileData,
    ticket: SizeQueryTicket,
}

impl Drop for SizeQuery<'_> {
    fn drop(&mut self) {
        self.data.state().cancel_size_query();
    }
}

impl SizeQuery<'_> {
    /// Takes the servers' answer, `None` if there was none. Returns the end as known now.
    pub fn answered(self, size: Option<u64>) -> u64 {
        let end = self.data.state().end_size_query(self.ticket, size);
        // It is counted down already, under the same lock.
        std::mem::forget(self);
        end
    }
}

impl FileData {
    /// The size; one request to each server unless it is known.
    pub(in crate::data) async fn size(&self, file: &File) -> Result<u64, DataError> {
        self.refresh_content(file).await?;
        let fresh = self.fresh_size();
        match fresh {
            Some(end) => Ok(end),
            None => self.query_size(file).await,
        }
    }

    /// The size, if it is known without a query.
    pub(super) fn fresh_size(&self) -> Option<u64> {
        self.state().fresh_size(!self.is_write_through())
    }

    /// Asks each server once; again if bytes were lost meanwhile, because the answer assumes that
    /// they will arrive.
    pub(in crate::data) async fn query_size(&self, file: &File) -> Result<u64, DataError> {
        self.require_cells(file).await?;
        let mut tries = 0;
        loop {
            tries += 1;
            let query = self.begin_size_query();
            let losses = query.ticket.losses();
            let answer = self.resources().outages().retry(|| file.size()).await;
            let end = query.answered(answer.as_ref().ok().copied());
            answer?;
            if tries == SIZE_QUERIES_MAX || self.state().losses() == losses {
                return Ok(end);
            }
        }
    }

    /// Begins a query. Must come before it is sent: the answer may or may not cover what is in
    /// flight now, or is written until it is here.
    pub(in crate::data) fn begin_size_query(&self) -> SizeQuery<'_> {
        let ticket = self.state().begin_size_query();
        SizeQuery { data: self, ticket }
    }
}
