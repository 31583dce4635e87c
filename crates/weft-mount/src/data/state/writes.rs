//! Write-back: what to send next, and the effect of completions, failures and truncations.

use std::sync::Arc;

use bytes::Bytes;
use weft_client::{Attributes, File};
use weft_proto::limits::INLINE_MAX;

use super::FileState;
use super::content::{Learned, Location};
use crate::data::clock::{Clock, Moment};
use crate::data::error::DataError;
use crate::data::extents::Batch;
use crate::outage::CallFailure;

/// What is sent next.
pub(in crate::data) enum Transfer {
    /// Dirty bytes to the cells.
    Cells {
        batch: Batch,
        /// They survive power loss on arrival.
        durable: bool,
        /// They count as written then, and not when they arrive.
        written: Option<i64>,
    },
    Inline(InlineStep),
}

/// What an inline file with dirty bytes needs next.
pub(in crate::data) enum InlineStep {
    /// Store all of its content, as written at this time; the batch is what changed of it.
    Store {
        batch: Batch,
        content: Bytes,
        written: i64,
    },
    /// Move its bytes to the cells.
    Move,
    /// Fetch its content again, before dirty bytes are applied to it.
    Refresh,
}

impl Transfer {
    /// Bytes to send; [`u64::MAX`] if unknown.
    pub(in crate::data) fn bytes(&self) -> u64 {
        match self {
            Transfer::Cells { batch, .. } | Transfer::Inline(InlineStep::Store { batch, .. }) => {
                batch.bytes()
            }
            Transfer::Inline(InlineStep::Move) => 0,
            Transfer::Inline(InlineStep::Refresh) => u64::MAX,
        }
    }
}

/// Where a truncation came from.
#[derive(Clone, Copy)]
pub(in crate::data) enum Truncated {
    /// An attachment of this cache; `inline`: the file's bytes are inline afterwards.
    Here { inline: bool },
    /// Another call.
    Elsewhere,
}

impl FileState {
    /// Takes a write through the open file `open`, which ends at `end`.
    ///
    /// # Errors
    /// An out-of-space error not yet reported to this open file.
    pub(in crate::data) fn write(
        &mut self,
        (open, via): (u64, &File),
        offset: u64,
        data: Bytes,
        end: u64,
    ) -> Result<(), DataError> {
        if self.failures.count() > 0
            && let Some(reported) = self.opens.reported(open)
        {
            self.failures.report_by_write(reported)?;
        }
        self.write_back.write(offset, data, via);
        self.note_write(open, end);
        self.opens.drop_prefetched(&(offset..end));
        Ok(())
    }

    /// A write goes through to the servers: until it ends, its bytes may be there or not.
    pub(in crate::data) fn begin_through(&mut self) {
        self.size.begin_through();
    }

    /// A write through has ended.
    pub(in crate::data) fn end_through(&mut self) {
        self.size.end_through();
    }

    /// The open file `open` has written up to `end`.
    pub(in crate::data) fn note_write(&mut self, open: u64, end: u64) {
        self.size.grow_to(end);
        self.opens.note_write(open, end);
    }

    /// Bytes in the cells need a sync.
    pub(in crate::data) fn note_unsynced(&mut self) {
        self.durability.note_unsynced();
    }

    /// Whether what is sent now is to be durable on arrival.
    pub(in crate::data) fn sends_durably(&self) -> bool {
        self.durability.sends_durably()
    }

    /// Sends batches as durable, unless older bytes need a sync anyway. Returns whether it does.
    pub(in crate::data) fn begin_durable_sends(&mut self) -> bool {
        let enough = !self.durability.is_unsynced()
            && self.write_back.is_idle()
            && self.content.is_in_cells();
        if enough {
            self.durability.begin_durable_sends();
        }
        enough
    }

    pub(in crate::data) fn end_durable_sends(&mut self) {
        self.durability.end_durable_sends();
    }

    /// The time of modification is being set by hand: from now on bytes that were written before
    /// tell the servers when that was. False while older bytes are on their way.
    pub(in crate::data) fn set_time(&mut self) -> bool {
        let at_rest = self.write_back.is_idle();
        if at_rest {
            self.opens.set_time();
        }
        at_rest
    }

    /// A sync begins; returns whether there is anything to sync.
    pub(in crate::data) fn take_unsynced(&mut self) -> bool {
        self.durability.take_unsynced()
    }

    /// Everything written until now is due; returns the epoch of what is written from now on.
    pub(in crate::data) fn make_all_due(&mut self) -> u64 {
        self.write_back.make_all_due()
    }

    /// The same, if anything is dirty; returns whether it is.
    pub(in crate::data) fn make_dirty_due(&mut self) -> bool {
        let dirty = self.write_back.dirty_bytes() > 0;
        if dirty {
            self.write_back.make_all_due();
        }
        dirty
    }

    /// Dirty bytes age by a tick; returns whether there are any.
    pub(in crate::data) fn tick(&mut self) -> bool {
        self.write_back.tick();
        !self.write_back.is_clean()
    }

    pub(in crate::data) fn hold(&mut self) {
        self.write_back.hold();
    }

    pub(in crate::data) fn release(&mut self) {
        self.write_back.release();
    }

    /// Takes every full or due batch. From `file_dirty` dirty bytes on, everything is due.
    pub(in crate::data) fn take_transfers(&mut self, file_dirty: usize) -> Vec<(File, Transfer)> {
        if self.write_back.dirty_bytes() >= file_dirty {
            self.write_back.make_all_due();
        }
        let mut transfers = Vec::new();
        while let Some(transfer) = self.next_transfer() {
            self.write_back.begin_transfer();
            let Some(via) = self.write_back.via().cloned() else {
                unreachable!("dirty bytes were written through an attachment")
            };
            transfers.push((via, transfer));
        }
        transfers
    }

    fn next_transfer(&mut self) -> Option<Transfer> {
        if !self.write_back.may_send() {
            return None;
        }
        match self.content.location() {
            Location::Inline(_) => self.next_inline_step().map(Transfer::Inline),
            Location::Moving(_) => None,
            Location::Cells => {
                let durable = self.durability.sends_durably();
                let batch = self.write_back.take_due()?;
                if !durable {
                    self.durability.note_unsynced();
                }
                let written = self.opens.written_before_set();
                Some(Transfer::Cells {
                    batch,
                    durable,
                    written,
                })
            }
        }
    }

    /// Takes all dirty bytes of an inline file, if they are due or no longer fit.
    fn next_inline_step(&mut self) -> Option<InlineStep> {
        let Location::Inline(content) = self.content.location() else {
            return None;
        };
        if self.write_back.is_clean() || !self.write_back.is_idle() {
            return None;
        }
        if self.write_back.end() > INLINE_MAX as u64 {
            self.content.begin_move();
            return Some(InlineStep::Move);
        }
        if !self.write_back.is_due() {
            return None;
        }
        if self.content.is_doubtful() {
            return Some(InlineStep::Refresh);
        }
        let mut whole = Vec::from(content.clone());
        let batch = self.write_back.take_all()?;
        for run in &batch.runs {
            let mut at = run.offset as usize;
            for buffer in &run.buffers {
                let end = at + buffer.len();
                whole.resize(whole.len().max(end), 0);
                whole[at..end].copy_from_slice(buffer);
                at = end;
            }
        }
        Some(InlineStep::Store {
            batch,
            content: whole.into(),
            written: self.opens.written(),
        })
    }

    /// Takes everything dirty, to drop it.
    pub(in crate::data) fn take_all(&mut self) -> Batch {
        self.write_back.take_all().unwrap_or_default()
    }

    /// A transfer has ended. `failure`: the file's name and the error, if the batch was lost.
    pub(in crate::data) fn end_transfer(
        &mut self,
        batch: &Batch,
        failure: Option<(String, CallFailure)>,
    ) {
        self.write_back.end_transfer(batch);
        let Some((file, failure)) = failure else {
            return;
        };
        let range = batch.range();
        let lost = DataError::Lost {
            file,
            start: range.start,
            end: range.end,
            tried: failure.tried,
            source: Arc::new(failure.error),
        };
        tracing::error!(bytes = batch.bytes(), error = %lost, "written data is lost");
        self.durability.note_unsynced();
        self.failures.record(lost);
        // The cells may hold other bytes than those that were written.
        let unsent_end = self.write_back.end();
        self.size.lost(unsent_end);
        if let Location::Inline(content) = self.content.location() {
            self.size.set_end(unsent_end.max(content.len() as u64));
        }
    }

    /// Drops what other clients may have changed: bytes read ahead and the known size.
    pub(in crate::data) fn invalidate(&mut self, clock: &Clock) {
        self.opens.drop_prefetched(&(0..u64::MAX));
        self.size.forget_answers();
        if self.content.is_in_cells() {
            self.size.set_end(self.write_back.end());
        } else {
            self.content.doubt(clock);
        }
    }

    /// A truncation to `size` has ended, while no batch was in flight.
    pub(in crate::data) fn truncated(&mut self, size: u64, by: Truncated, clock: &Clock) {
        self.opens.drop_prefetched(&(0..u64::MAX));
        self.write_back.truncate(size);
        self.size.truncated(size);
        self.opens.truncated(size);
        match by {
            Truncated::Here { inline } => self.content.truncated_here(size, inline, clock),
            Truncated::Elsewhere => self.content.truncated_elsewhere(clock),
        }
    }

    /// A truncation has failed: it may or may not have taken effect.
    pub(in crate::data) fn truncation_failed(&mut self, clock: &Clock) {
        self.opens.drop_prefetched(&(0..u64::MAX));
        self.size.truncation_failed();
        self.content.doubt(clock);
    }

    /// Applies a reply to a location query sent at `asked`; ignored (false) if this mount has
    /// changed the bytes since.
    pub(in crate::data) fn learn_content(&mut self, asked: Moment, inline: Option<Bytes>) -> bool {
        match self.content.learn(asked, inline) {
            Learned::Outdated => return false,
            Learned::InCells => {}
            Learned::Inline(length) => self.size.set_end(self.write_back.end().max(length)),
            Learned::MovedToCells => {
                self.size.set_end(self.write_back.end());
                self.size.forget();
            }
        }
        true
    }

    /// All content of an inline file was stored by a call that began at this moment.
    pub(in crate::data) fn stored(
        &mut self,
        content: &Bytes,
        written: i64,
        attributes: Attributes,
        began: Moment,
        clock: &Clock,
    ) {
        self.content
            .stored(content, written, attributes, began, clock);
    }

    /// The service has moved the bytes to the cells.
    pub(in crate::data) fn set_in_cells(&mut self) {
        self.content.set_in_cells();
    }

    /// The move of the bytes to the cells has ended.
    pub(in crate::data) fn end_move(&mut self, moved: bool) {
        self.content.end_move(moved);
    }

    /// The servers are about to change the bytes, which are in the cells now.
    pub(in crate::data) fn begin_server_side_change(&mut self) {
        self.durability.note_unsynced();
        if self.content.set_in_cells() {
            self.size.forget();
        }
    }
}
