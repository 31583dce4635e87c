//! Sends dirty bytes to the servers, and records those that are lost.

use std::sync::Arc;

use weft_client::{Error, File, InlineTask};
use weft_layout::ViewOffset;

use super::file_data::{FileData, message_name};
use crate::data::extents::Batch;
use crate::data::state::{InlineStep, Transfer};
use crate::limits::INLINE_SEND_MAX;
use crate::outage::CallFailure;

impl FileData {
    /// Writes everything that is dirty now to the servers. Waits no longer for a service than the
    /// outage timeout.
    pub(in crate::data) async fn flush(self: &Arc<Self>) {
        let target = self.state().make_all_due();
        let runtime = self.resources().runtime();
        for (via, transfer) in self.take_transfers() {
            // The caller waits: this thread sends what is small, and wakes no other for it.
            if transfer.bytes() <= INLINE_SEND_MAX {
                let inline = InlineTask::new(runtime);
                let _context = runtime.enter();
                let sent = Box::pin(self.clone().send(via, transfer));
                inline.run(sent, &inline.waker());
            } else {
                self.spawn(via, transfer);
            }
        }
        self.wait_until(|state| state.is_flushed_to(target)).await;
    }

    /// Starts to send everything that is dirty.
    pub(in crate::data) fn start_all(self: &Arc<Self>) {
        if self.state().make_dirty_due() {
            self.start();
        }
    }

    /// Dirty bytes age by a tick.
    pub(in crate::data) fn tick(self: &Arc<Self>) {
        let dirty = self.state().tick();
        if dirty {
            self.start();
        }
    }

    /// Starts to send what is whole or due.
    pub(in crate::data) fn start(self: &Arc<Self>) {
        for (via, transfer) in self.take_transfers() {
            self.spawn(via, transfer);
        }
    }

    /// Waits until the mount's budget of dirty bytes has space for another write.
    pub(in crate::data) async fn wait_for_budget(&self) {
        let dirty = self.resources().dirty();
        while dirty.is_spent() {
            let mut freed = std::pin::pin!(dirty.freed());
            freed.as_mut().enable();
            for file in self.resources().registry().all() {
                file.start_all();
            }
            if dirty.is_spent() {
                freed.await;
            }
        }
    }

    fn take_transfers(&self) -> Vec<(File, Transfer)> {
        let file_dirty = self.resources().config().file_dirty;
        self.state().take_transfers(file_dirty)
    }

    /// Sends one transfer after the other, as long as there are any; others at the same time.
    async fn send(self: Arc<Self>, via: File, transfer: Transfer) {
        let mut next = Some((via, transfer));
        while let Some((via, transfer)) = next.take() {
            let (batch, result) = self.send_one(&via, transfer).await;
            let failure = result.err().map(|failure| (message_name(&via), failure));
            self.state().end_transfer(&batch, failure);
            self.notify_progress();
            let mut more = self.take_transfers().into_iter();
            next = more.next();
            more.for_each(|(via, transfer)| self.spawn(via, transfer));
        }
    }

    fn spawn(self: &Arc<Self>, via: File, transfer: Transfer) {
        let runtime = self.resources().runtime();
        runtime.spawn(self.clone().send(via, transfer));
    }

    async fn send_one(
        self: &Arc<Self>,
        via: &File,
        transfer: Transfer,
    ) -> (Batch, Result<(), CallFailure>) {
        match transfer {
            Transfer::Cells {
                batch,
                durable,
                written,
            } => {
                let result = self.send_to_cells(via, &batch, durable, written).await;
                (batch, result)
            }
            Transfer::Inline(InlineStep::Store {
                batch,
                content,
                written,
            }) => {
                let result = match self.store_inline(via, &content, written).await {
                    Ok(true) => Ok(()),
                    // It has moved to the cells meanwhile, which need what changed.
                    Ok(false) => self.send_to_cells(via, &batch, false, None).await,
                    Err(failure) => Err(failure),
                };
                (batch, result)
            }
            Transfer::Inline(InlineStep::Refresh) => {
                let result = self.refresh_content(via).await;
                (self.drop_unless(&result), result)
            }
            Transfer::Inline(InlineStep::Move) => {
                let result = self.move_to_cells(via).await;
                (self.drop_unless(&result), result)
            }
        }
    }

    /// Takes all dirty bytes if content that is unknown, or cannot be moved, cannot be written
    /// over.
    fn drop_unless(&self, result: &Result<(), CallFailure>) -> Batch {
        match result {
            Ok(()) => Batch::default(),
            Err(_) => self.state().take_all(),
        }
    }

    /// Sends a batch, and repeats it while servers are unreachable: the same bytes to the same
    /// offsets.
    async fn send_to_cells(
        &self,
        via: &File,
        batch: &Batch,
        durable: bool,
        written: Option<i64>,
    ) -> Result<(), CallFailure> {
        let outages = self.resources().outages();
        let transfer = || send_batch(via, batch, durable, written);
        let sent = outages.retry(transfer).await;
        if !durable {
            // Now that it has arrived: a sync in flight may have missed it.
            self.state().note_unsynced();
        }
        sent
    }
}

/// Turns a batch into requests: one to each server, however many runs it has.
async fn send_batch(
    via: &File,
    batch: &Batch,
    durable: bool,
    written: Option<i64>,
) -> Result<(), Error> {
    via.spill().await?;
    let view = via.canonical()?.written_at(written.unwrap_or(0));
    match batch.runs.as_slice() {
        [run] if !durable => {
            view.write_parts(ViewOffset(run.offset), &run.buffers)
                .await?;
            return Ok(());
        }
        [run] if run.buffers.len() == 1 => {
            let data = run.buffers[0].clone();
            view.write_at_synced(ViewOffset(run.offset), data).await?;
            return Ok(());
        }
        _ => {}
    }
    let mut list = Vec::new();
    for run in &batch.runs {
        let mut at = run.offset;
        for buffer in &run.buffers {
            list.push((ViewOffset(at), buffer.clone()));
            at += buffer.len() as u64;
        }
    }
    if durable {
        view.write_list_synced(&list).await?;
    } else {
        view.write_list(&list).await?;
    }
    Ok(())
}
