//! The file that all clients write at once.

use bytes::Bytes;
use rand::{Rng, RngCore};
use weft_client::{Error, File};
use weft_layout::{Order, Subfile, View, ViewOffset};
use weft_proto::Code;

use crate::canary::Canary;
use crate::client::volume::{CELLS, LENGTH};
use crate::client::worker::Client;
use crate::state::now;

impl Client {
    /// Writes some bytes, half of the time among those that no other client writes.
    pub(in crate::client) async fn write(&mut self, file: &File) {
        // All clients write the last share.
        let part = LENGTH / (self.plan.clients + 1);
        let (from, to) = match self.rng.random_range(0..4) {
            0..=1 => (self.number * part, (self.number + 1) * part),
            2 => (LENGTH - part, LENGTH),
            _ => (0, LENGTH),
        };
        let at = self.rng.random_range(from..to);
        let most = if self.rng.random() { 300 } else { 20_000 };
        let mut data = vec![0; self.rng.random_range(0..=(to - at).min(most))];
        self.rng.fill_bytes(&mut data);
        let by = self.number as u64;
        let write = self.state.lock().oracle().begin_by(by, at, &data, now());
        let result = self.send(file, at, data).await;
        let mut state = self.state.lock();
        state.oracle().end(write, result.is_ok(), now());
        state.count("write", &result);
    }

    pub(in crate::client) async fn send(
        &self,
        file: &File,
        at: usize,
        data: Vec<u8>,
    ) -> Result<(), Error> {
        if self.plan.canary == Some(Canary::Unsent) {
            return Ok(());
        }
        let view = file.canonical()?;
        view.write_at(ViewOffset(at as u64), Bytes::from(data))
            .await?;
        Ok(())
    }

    pub(in crate::client) async fn read(
        &mut self,
        file: &File,
        at: usize,
        length: usize,
    ) -> Result<(), Error> {
        // The same bytes through two views: the canonical order is one subfile of one row of cells.
        let row = Subfile {
            vbs: 1,
            vn: 1,
            hbs: u64::from(CELLS),
            hn: 1,
            index: 0,
            order: Order::Row,
        };
        let view = if self.rng.random() {
            View::canonical()
        } else {
            View::Subfile(row)
        };
        let mut buffer = vec![0; length];
        let begun = now();
        file.view(view)?
            .read_at(ViewOffset(at as u64), &mut buffer)
            .await?;
        let mut state = self.state.lock();
        let losses = state.losses.clone();
        if let Some(found) = state.oracle().check(at, &buffer, (begun, now()), &losses) {
            state.note_unexplained(file.path(), &found);
        }
        state.digest(&buffer);
        Ok(())
    }

    pub(in crate::client) async fn sync(&mut self, file: &File) -> Result<(), Error> {
        let (begun, by) = (now(), self.number as u64);
        let synced = file.sync().await;
        let mut state = self.state.lock();
        let losses = state.losses.clone();
        match &synced {
            Ok(()) => state.oracle().synced_by(by, begun, now()),
            Err(error) if error.code() == Code::Lost => {
                let explained = state.oracle().reported_lost(by, (begun, now()), &losses);
                state.note_loss(explained, error);
            }
            Err(_) => {}
        }
        synced
    }
}
