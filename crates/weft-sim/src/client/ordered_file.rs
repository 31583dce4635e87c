//! A file that all clients read and write by cautious operations, some of them through names that
//! they keep: each writes all of it, so that a read finds one write and never two, and the history
//! must be linearizable.

use bytes::Bytes;
use rand::Rng;
use weft_client::{Access, Error, OpenView, Policy, Volume};
use weft_layout::{Storage, ViewOffset};

use super::calls::ignore_reported_loss;
use super::volume::{BSU, CELLS};
use super::worker::Client;
use crate::canary::Canary;
use crate::history::Value;
use crate::state::now;

/// Bytes of the file: some BSUs of each cell.
const LENGTH: usize = 2 * CELLS as usize * BSU as usize;
const STAMP: usize = size_of::<Value>();

impl Client {
    /// The file, once all of it is written.
    pub(super) async fn ordered(&mut self, volume: &Volume) -> Result<OpenView, Error> {
        let layout = self.layout();
        let mut access = Access::read_write().create(0o644).layout(&layout);
        if self.plan.canary != Some(Canary::NoClaims) {
            access = access.policy(self.ordered_policy());
        }
        volume.attach("/ordered", access).await?.canonical()
    }

    /// In order in any case. Of an addressed file most clients keep names.
    fn ordered_policy(&self) -> Policy {
        match self.layout().storage {
            Some(Storage::Addressed) if self.number > 0 => Policy::SEQ_2,
            Some(Storage::Addressed) => Policy::SEQ_1,
            _ => Policy::POSIX,
        }
    }

    pub(super) async fn ordered_operation(&mut self, view: &OpenView) {
        let writes = if self.ordered_policy() == Policy::SEQ_2 {
            // More reads, so that some find what is kept.
            self.rng.random_ratio(1, 4)
        } else {
            self.rng.random()
        };
        if writes {
            self.write_stamps(view).await;
        } else {
            let read = self.read_stamps(view).await;
            self.state.lock().count("cautious read", &read);
        }
    }

    pub(super) async fn write_stamps(&mut self, view: &OpenView) {
        let value = self.state.lock().history.next_value();
        let data = value.to_le_bytes().repeat(LENGTH / STAMP);
        let began = now();
        let written = view.write_at_synced(ViewOffset(0), Bytes::from(data)).await;
        let mut state = self.state.lock();
        // One that failed may have taken effect, or may still do so.
        let ended = written.is_ok().then(now);
        state.history.wrote(value, (began, ended));
        state.count("cautious write", &written);
    }

    pub(super) async fn ordered_after_healing(&mut self, view: &OpenView) -> Result<(), Error> {
        let read = self.read_stamps(view).await;
        self.state.lock().tolerate(read)?;
        ignore_reported_loss(view.file().close().await)
    }

    async fn read_stamps(&mut self, view: &OpenView) -> Result<(), Error> {
        let mut bytes = vec![0; LENGTH];
        let began = now();
        view.read_at(ViewOffset(0), &mut bytes).await?;
        let stamps = bytes.as_chunks::<STAMP>().0;
        let value = Value::from_le_bytes(stamps[0]);
        let mut state = self.state.lock();
        if let Some(other) = stamps.iter().find(|stamp| **stamp != stamps[0]) {
            let other = Value::from_le_bytes(*other);
            state.note_wrong(format!(
                "a cautious read found parts of two writes, {value} and {other}"
            ));
        }
        state.history.read(value, (began, now()));
        if let Some(wrong) = state.history.wrong() {
            state.note_wrong(wrong);
        }
        state.digest(&bytes);
        Ok(())
    }
}
