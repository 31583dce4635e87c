//! Copies of one file that servers make.
//!
//! The source is written once. One target has the source's layout, so bytes may stay on their
//! server; the other has a different layout, so servers send each other the long ranges.

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore};
use weft_client::{Error, File, NewLayout, Volume};
use weft_layout::{FileOffset, ViewOffset};

use super::calls::{ignore_reported_loss, make};
use super::content::Content;
use super::settle::settle;
use super::volume::{BSU, CELLS};
use crate::state::{State, now};

/// Bytes of the source: of longer stretches than 256 KiB servers send each other what they have,
/// and shorter ones go through the client.
const LENGTH: usize = 290_000;
/// A copy that is to be sent begins before this.
const SENT_FROM: usize = 20_000;
/// Bytes of other copies at most.
const SHORT: usize = 20_000;

pub(super) struct Copies {
    state: State,
    rng: SmallRng,
    source: File,
    bytes: Vec<u8>,
    targets: Vec<(File, Content)>,
}

impl Copies {
    /// Makes the files of a client, all of which begin with `own-`.
    pub(super) async fn new(
        volume: &Volume,
        state: &State,
        mut rng: SmallRng,
        layout: NewLayout,
        client: usize,
    ) -> Result<Copies, Error> {
        let mut bytes = vec![0; LENGTH];
        rng.fill_bytes(&mut bytes);
        let source = make(volume, state, &layout, &format!("/own-{client}-source")).await?;
        let (view, data) = (source.canonical()?, Bytes::from(bytes.clone()));
        settle(state, "write of a source", async |_| {
            view.write_at_synced(ViewOffset(0), data.clone()).await
        })
        .await?;
        let mut turned = NewLayout {
            cells: Some(CELLS - 1),
            bsu: Some(4 * BSU + 96),
            ..layout.clone()
        };
        turned.servers.rotate_left(1);
        let mut targets = Vec::new();
        for (name, layout) in [("same", layout), ("turned", turned)] {
            let file = make(volume, state, &layout, &format!("/own-{client}-{name}")).await?;
            let content = Content::none(LENGTH, &file, &state.lock().losses);
            targets.push((file, content));
        }
        Ok(Copies {
            state: state.clone(),
            rng,
            source,
            bytes,
            targets,
        })
    }

    /// Copies, reads or syncs.
    pub(super) async fn operation(&mut self) {
        let (place, sent) = (
            self.rng.random_range(0..self.targets.len()),
            self.rng.random(),
        );
        match self.rng.random_range(0..5) {
            0..=2 => self.copy(place, sent).await,
            3 => {
                let (file, content) = &mut self.targets[place];
                let result = content.check(&self.state, file.path(), file).await;
                self.state.lock().count("read of a copy", &result);
            }
            _ => {
                let (file, content) = &mut self.targets[place];
                let result = content.sync(&self.state, file).await;
                self.state.lock().count("sync of a copy", &result);
            }
        }
    }

    /// When nothing fails any more: the copies are as they must be.
    pub(super) async fn after_healing(&mut self) -> Result<(), Error> {
        for (file, content) in &mut self.targets {
            let read = content.check(&self.state, file.path(), file).await;
            self.state.lock().tolerate(read)?;
            let (begun, closed) = (now(), file.close().await);
            content.note_reported_loss(&self.state, begun, &closed);
            ignore_reported_loss(closed)?;
        }
        self.source.close().await
    }

    /// Copies a part of the source, so long that it is sent or not, half of the time to where it
    /// lies in the source.
    async fn copy(&mut self, place: usize, sent: bool) {
        let (from, length) = if sent {
            let from = self.rng.random_range(0..SENT_FROM);
            (from, LENGTH - from)
        } else {
            let from = self.rng.random_range(0..LENGTH);
            (from, self.rng.random_range(1..=(LENGTH - from).min(SHORT)))
        };
        let to = if self.rng.random() {
            from
        } else {
            self.rng.random_range(0..=LENGTH - length)
        };
        let (file, content) = &mut self.targets[place];
        let (at, end) = (FileOffset(from as u64), FileOffset(to as u64));
        let copying = file.copy_range(&self.source, at, end, length as u64);
        let bytes = &self.bytes[from..from + length];
        let copied = content.write(&self.state, (to, bytes), copying).await;
        let mut state = self.state.lock();
        if let Ok(copied) = &copied
            && *copied != length as u64
        {
            let path = file.path();
            state.note_wrong(format!("{copied} of {length} bytes were copied to {path}"));
        }
        state.count("copy", &copied);
    }
}
