//! An open of a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use weft_client::{Attributes, Closed, File};
use weft_layout::OFFSET_MAX;
use weft_proto::limits::INLINE_MAX;

use crate::data::buffer_chain::BufferChain;
use crate::data::clock::Moment;
use crate::data::error::DataError;
use crate::data::file::{FileData, SizeQuery, message_name};
use crate::data::state::Report;

/// One open file description. Dropping it without [`OpenData::close`] closes it in the background.
pub struct OpenData {
    data: Arc<FileData>,
    file: File,
    open: u64,
    closed: AtomicBool,
}

impl OpenData {
    /// `asked`: the moment before the file was attached, if other opens of this mount may have
    /// changed it since.
    pub(in crate::data) fn new(data: Arc<FileData>, file: File, asked: Option<Moment>) -> OpenData {
        let resources = data.resources();
        let config = resources.config();
        let read_ahead = if data.is_write_through() {
            0
        } else {
            config.read_ahead
        };
        let open = {
            let mut state = data.state();
            let asked = asked.unwrap_or_else(|| resources.clock().now());
            state.learn_content(asked, file.inline_data());
            state.add_open(read_ahead as u64)
        };
        OpenData {
            data,
            file,
            open,
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn data(&self) -> &Arc<FileData> {
        &self.data
    }

    /// The open's number among those of the file.
    pub(super) fn number(&self) -> u64 {
        self.open
    }

    /// Whether writes go to the servers before they return, and nothing is read ahead.
    pub fn is_write_through(&self) -> bool {
        self.data.is_write_through()
    }

    /// The attached file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads `length` bytes from `offset` on; fewer only at the file's end.
    ///
    /// # Cancellation
    /// Safe; so is dropping a write that has not returned: nothing or all of it is in the cache.
    pub async fn read(&self, offset: u64, length: usize) -> Result<Bytes, DataError> {
        Ok(self.read_buffers(offset, length).await?.into_bytes())
    }

    /// As [`OpenData::read`], without a copy: the bytes stay in the buffers in which they arrived.
    pub async fn read_buffers(&self, offset: u64, length: usize) -> Result<BufferChain, DataError> {
        let end = offset.saturating_add(length as u64).min(OFFSET_MAX);
        self.data.read(&self.file, self.open, offset..end).await
    }

    /// Whether the bytes lie with the metadata, so that a sync of them is one of the namespace.
    pub fn is_inline(&self) -> bool {
        !self.data.state().is_in_cells()
    }

    /// Whether the bytes lie with the metadata, or did when the file was opened: then the cells say
    /// nothing about them.
    pub fn may_be_inline(&self) -> bool {
        self.is_inline() || self.file.inline_data().is_some()
    }

    /// Whether the bytes lie in cells, or will once they are sent.
    pub fn needs_cells(&self) -> bool {
        let state = self.data.state();
        state.is_in_cells() || state.known_end().is_some_and(|end| end > INLINE_MAX as u64)
    }

    /// Compares the service's latest attributes with what is cached; drops what another client has
    /// changed.
    pub fn compare(&self, attributes: &Attributes) {
        let clock = self.data.resources().clock();
        self.data.state().compare(attributes, clock);
    }

    /// One past the last byte that this cache knows of; the file may be longer, if others write it,
    /// and shorter, if they have truncated it. `None` if writes go through (strict): the servers
    /// know better then. No message.
    pub fn known_end(&self) -> Option<u64> {
        if self.data.is_write_through() {
            return None;
        }
        self.data.state().known_end()
    }

    /// The file's size, including what was written here: one request to each server, unless it was
    /// known within the last second (strict: always).
    pub async fn size(&self) -> Result<u64, DataError> {
        self.data.size(&self.file).await
    }

    /// Must come before a query of the servers that does not go through this cache. The caller
    /// hands their answer to the result: from then on reads go as far.
    pub fn begin_size_query(&self) -> SizeQuery<'_> {
        self.data.begin_size_query()
    }

    /// Drops bytes read ahead and the known size: other clients may have changed the file.
    pub fn invalidate(&self) {
        self.data.invalidate();
    }

    /// As [`OpenData::invalidate`], if there were opens before this one: what they know of the
    /// cells is older. Content that lies with the metadata comes with every open. No message.
    pub fn invalidate_older(&self) {
        let older = {
            let state = self.data.state();
            state.had_other_opens() && state.is_in_cells()
        };
        if older {
            self.data.invalidate();
        }
    }

    /// Ends an open that only read, and leaves the file attached. False, and nothing is done, if a
    /// failure is still to be reported to it. No message.
    pub fn release(&self) -> bool {
        let mut state = self.data.state();
        if state.failures() > 0 || self.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        state.remove_open(self.open);
        true
    }

    /// Flushes, reports size and time, detaches. The open is closed also when it fails. A second
    /// call does nothing.
    ///
    /// Returns what the service knows of a file that was written to its cells.
    pub async fn close(&self) -> Result<Option<Closed>, DataError> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(None);
        }
        close(&self.data, &self.file, self.open).await
    }
}

impl Drop for OpenData {
    fn drop(&mut self) {
        if !*self.closed.get_mut() {
            let (data, file, open) = (self.data.clone(), self.file.clone(), self.open);
            let runtime = data.resources().runtime().clone();
            runtime.spawn(async move {
                if let Err(error) = close(&data, &file, open).await {
                    tracing::warn!(file = message_name(&file), %error, "cannot close a file");
                }
            });
        }
    }
}

async fn close(data: &Arc<FileData>, file: &File, open: u64) -> Result<Option<Closed>, DataError> {
    data.flush().await;
    let reported = {
        let mut state = data.state();
        let reported = state.report(Report::Flush, open);
        if let Some(last) = state.remove_open(open) {
            file.note_written_to(last.end, last.time);
        }
        reported
    };
    let outages = data.resources().outages();
    let closed = outages.retry(|| file.close_deferred()).await;
    reported?;
    Ok(closed?)
}
