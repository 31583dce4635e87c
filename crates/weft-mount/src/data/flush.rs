//! Dirty bytes on their way to the servers, and what becomes of failures.

use std::sync::Arc;

use weft_client::{Error, File};
use weft_layout::ViewOffset;

use super::DataError;
use super::extents::Batch;
use super::file::FileData;
use super::inline::Inlined;
use super::state::{Home, State};
use crate::inline_task::InlineTask;
use crate::limits::{BATCHES_IN_FLIGHT_MAX, INLINE_SEND_MAX, RUNS_PER_BATCH_MAX, TICKS_PER_FLUSH};
use crate::outage::GaveUp;

/// What takes off.
enum Flight {
    /// To the cells; true: to survive power loss when it lands.
    Cells(Batch, bool),
    Inline(Inlined),
}

impl Flight {
    /// Bytes on their way, as far as they are known.
    fn bytes(&self) -> u64 {
        match self {
            Flight::Cells(batch, _) | Flight::Inline(Inlined::Store(batch, ..)) => batch.bytes(),
            Flight::Inline(Inlined::Move | Inlined::Ask) => u64::MAX,
        }
    }
}

impl FileData {
    /// Writes everything that is dirty now to the servers. Bounded by patience.
    pub(super) async fn flush(self: &Arc<Self>) {
        let target = self.state.lock().all_due();
        for (via, flight) in self.ready() {
            // Somebody waits: what is small leaves from here, without waking another thread for it.
            if flight.bytes() <= INLINE_SEND_MAX {
                let inline = InlineTask::new(&self.cache.runtime);
                let _context = self.cache.runtime.enter();
                let flies = Box::pin(self.clone().fly(via, flight));
                inline.run(flies, &inline.waker());
            } else {
                self.cache.runtime.spawn(self.clone().fly(via, flight));
            }
        }
        self.wait_until(|state| state.extents.oldest().is_none_or(|oldest| oldest >= target))
            .await;
    }

    /// Sees to it that everything dirty takes off.
    pub(super) fn start_all(self: &Arc<Self>) {
        if self.state.lock().extents.dirty_bytes() > 0 {
            self.state.lock().all_due();
            self.start();
        }
    }

    /// A moment of a dirty byte's life passes.
    pub(super) fn tick(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            state.epoch += 1;
            state.due = state
                .due
                .max(state.epoch.saturating_sub(u64::from(TICKS_PER_FLUSH)));
            if state.extents.oldest().is_none() {
                return;
            }
        }
        self.start();
    }

    /// Waits until the state is so, looking whenever something landed.
    pub(super) async fn wait_until(&self, is: impl Fn(&State) -> bool) {
        loop {
            let mut landed = std::pin::pin!(self.landed.notified());
            landed.as_mut().enable();
            if is(&self.state.lock()) {
                return;
            }
            landed.await;
        }
    }

    /// Sends off what is whole or due.
    pub(super) fn start(self: &Arc<Self>) {
        for (via, flight) in self.ready() {
            self.cache.runtime.spawn(self.clone().fly(via, flight));
        }
    }

    /// Takes what is whole or due, to be sent off.
    fn ready(&self) -> Vec<(File, Flight)> {
        let mut flights = Vec::new();
        {
            let mut state = self.state.lock();
            let before = state.extents.charge();
            if state.extents.dirty_bytes() >= self.cache.config.file_dirty {
                state.all_due();
            }
            while let Some(flight) = state.take_off() {
                state.flights += 1;
                let Some(via) = state.via.clone() else {
                    unreachable!("dirty bytes were written by somebody")
                };
                flights.push((via, flight));
            }
            self.cache.dirty.change(before, state.extents.charge());
        }
        flights
    }

    async fn fly(self: Arc<Self>, via: File, flight: Flight) {
        let via = &via;
        let (batch, result) = match flight {
            Flight::Cells(batch, synced) => {
                let result = self.deliver(via, &batch, synced).await;
                (batch, result)
            }
            Flight::Inline(Inlined::Store(batch, content, written)) => {
                let result = match self.store(via, &content, written).await {
                    Ok(true) => Ok(()),
                    // It has moved to the cells meanwhile: what is owed is what changed.
                    Ok(false) => self.deliver(via, &batch, false).await,
                    Err(gave_up) => Err(gave_up),
                };
                (batch, result)
            }
            Flight::Inline(step) => {
                let result = match step {
                    Inlined::Ask => self.learn_again(via).await,
                    _ => self.spill(via).await,
                };
                // What cannot be moved, or is not known, cannot be written over either.
                let stuck = result
                    .is_err()
                    .then(|| self.state.lock().extents.take_all());
                (stuck.flatten().unwrap_or_default(), result)
            }
        };
        self.land(via, &batch, result);
        self.start();
    }

    fn land(&self, via: &File, batch: &Batch, result: Result<(), GaveUp>) {
        {
            let mut state = self.state.lock();
            let before = state.extents.charge();
            state.extents.landed(batch);
            state.flights -= 1;
            match result {
                Ok(()) => {}
                Err(gave_up) => {
                    let range = batch.range();
                    state.unsynced = true;
                    let lost = DataError::Lost {
                        file: shown(via),
                        start: range.start,
                        end: range.end,
                        tried: gave_up.tried,
                        source: Arc::new(gave_up.error),
                    };
                    tracing::error!(bytes = batch.bytes(), error = %lost, "written data is lost");
                    state.failures += 1;
                    state.last_failure = Some(lost);
                    // Whatever is in the cells there now, it is not what was written.
                    state.ends.known = None;
                    state.ends.losses += 1;
                    state.ends.grown = state.extents.end();
                    if let Home::Inline(content) = &state.home {
                        state.ends.end = state.extents.end().max(content.len() as u64);
                    }
                }
            }
            self.cache.dirty.change(before, state.extents.charge());
        }
        self.landed.notify_waiters();
    }

    /// Sends a batch, again while servers are away: the same bytes to the same places.
    async fn deliver(&self, via: &File, batch: &Batch, synced: bool) -> Result<(), GaveUp> {
        let sent = self
            .cache
            .outages
            .wait_out(|| send(via, batch, synced))
            .await;
        if !synced {
            // Now that it has landed: a sync that was under way may have missed it.
            self.state.lock().unsynced = true;
        }
        sent
    }
}

/// A file in messages: `/a/f (file 7)`.
pub(super) fn shown(file: &File) -> String {
    let number = format!("file {}", file.id());
    match file.path() {
        path if path == number => number,
        path => format!("{path} ({number})"),
    }
}

impl State {
    fn take_off(&mut self) -> Option<Flight> {
        if self.held || self.flights >= BATCHES_IN_FLIGHT_MAX {
            return None;
        }
        match self.home {
            Home::Inline(_) => self.take_inline().map(Flight::Inline),
            Home::Moving(_) => None,
            Home::Cells => {
                let synced = self.syncing > 0;
                let batch = self.extents.take(self.due, RUNS_PER_BATCH_MAX)?;
                self.unsynced |= !synced;
                Some(Flight::Cells(batch, synced))
            }
        }
    }
}

/// Turns a batch of extents into requests: one to each server, however many runs there are.
async fn send(via: &File, batch: &Batch, synced: bool) -> Result<(), Error> {
    via.spill().await?;
    let view = via.canonical()?;
    match batch.runs.as_slice() {
        [run] if !synced => {
            view.write_parts(ViewOffset(run.offset), &run.parts).await?;
            return Ok(());
        }
        [run] if run.parts.len() == 1 => {
            let data = run.parts[0].clone();
            view.write_at_synced(ViewOffset(run.offset), data).await?;
            return Ok(());
        }
        _ => {}
    }
    let mut list = Vec::new();
    for run in &batch.runs {
        let mut at = run.offset;
        for part in &run.parts {
            list.push((ViewOffset(at), part.clone()));
            at += part.len() as u64;
        }
    }
    if synced {
        view.write_list_synced(&list).await?;
    } else {
        view.write_list(&list).await?;
    }
    Ok(())
}
