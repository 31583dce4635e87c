//! Bad blocks are found, and are good again after a rewrite.

use std::time::Duration;

use bytes::Bytes;
use rand::{Rng, RngCore};
use weft_client::{Error, File, Volume};
use weft_layout::{Order, ServerId, Subfile, View, ViewOffset};

use crate::client::calls::ignore_reported_loss;
use crate::client::settle::RECOVERY_TIMEOUT;
use crate::client::volume::{BSU, CELLS, LENGTH};
use crate::client::worker::Client;
use crate::state::now;

/// BSUs of each cell that are written, some of them behind the file's end: the last block is
/// written as a whole then.
const ROWS: usize = LENGTH / (CELLS as usize * BSU as usize) + 6;
/// So many bytes lie nowhere else by accident.
const NEEDLE: usize = 16;

impl Client {
    /// Removes the chunks of addressed files that were written anew or removed. Where that fails,
    /// the scrub says what is left.
    async fn clean_all(&self, volume: &Volume) {
        for server in 0..self.plan.servers as u32 {
            drop(volume.clean(ServerId(server), true).await);
        }
    }

    /// Has a block in use go bad: a scrub says so, reads do not return it, and what is written over
    /// it is good.
    pub(in crate::client) async fn rot_and_repair(&mut self, volume: &Volume) -> Result<(), Error> {
        let file = self.attach(volume).await?;
        self.write_all(&file).await?;
        let server = self.rot(&file).await;
        if self.scrub_all(volume).await?.is_empty() {
            let wrong = format!("the scrub missed the bad block of server {server}");
            self.state.lock().note_wrong(wrong);
        }
        let read = self.read(&file, 0, LENGTH).await;
        self.state.lock().tolerate(read)?;
        self.write_all(&file).await?;
        self.read(&file, 0, LENGTH).await?;
        ignore_reported_loss(file.close().await)?;
        // What went bad earlier may be a block of any of these.
        for entry in volume.list("/").all().await? {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            if name.starts_with("own-") || name == "ordered" {
                volume.unlink(format!("/{name}").as_str()).await?;
            }
        }
        // Or of the outcomes of cautious operations, which the next one heals.
        let ordered = self.ordered(volume).await?;
        self.write_stamps(&ordered).await;
        ignore_reported_loss(ordered.file().close().await)?;
        volume.unlink("/ordered").await?;
        let begun = now();
        loop {
            self.clean_all(volume).await;
            let mut bad = self.scrub_all(volume).await?;
            let left = !bad.is_empty();
            // The service takes a file whose close failed for open as long as its client is there:
            // its bytes stay.
            let count = self.state.lock().outcome.operations.get("close").copied();
            if count.is_some_and(|c| c.failed > 0) {
                bad.retain(|(_, finding)| finding.file == file.id());
            }
            if bad.is_empty() {
                self.state.lock().rotten = left;
                break;
            }
            if now() > begun + RECOVERY_TIMEOUT {
                let wrong = format!("all was written anew or removed, but bad are {bad:?}");
                self.state.lock().note_wrong(wrong);
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    /// Writes the whole file, to its place on the disks: cell by cell, because a bad block is good
    /// again only when one piece covers all of it, and the file's BSUs are smaller than blocks.
    async fn write_all(&mut self, file: &File) -> Result<(), Error> {
        let (bsu, cells) = (BSU as usize, CELLS as usize);
        let mut data = vec![0; ROWS * cells * bsu];
        self.rng.fill_bytes(&mut data);
        let write = self.state.lock().oracle().begin(0, &data[..LENGTH], now());
        for cell in 0..cells {
            let mine = data.chunks(bsu).skip(cell).step_by(cells);
            let one = Subfile {
                vbs: 1,
                vn: 1,
                hbs: 1,
                hn: u64::from(CELLS),
                index: cell as u64,
                order: Order::Row,
            };
            let view = file.view(View::Subfile(one))?;
            let bytes = Bytes::from(mine.collect::<Vec<_>>().concat());
            view.write_at(ViewOffset(0), bytes).await?;
        }
        self.state.lock().oracle().end(write, true, now());
        ignore_reported_loss(self.sync(file).await)?;
        let length = data.len() as u64;
        file.canonical()?.release(ViewOffset(0), length).await
    }

    /// Has a bit of the file change on the disk of its server.
    async fn rot(&mut self, file: &File) -> usize {
        // Bytes that lie in two blocks are not found.
        for _ in 0..10 {
            let row = self.rng.random_range(0..LENGTH as u64 / BSU);
            let at = row * BSU + self.rng.random_range(0..BSU - NEEDLE as u64);
            let mut needle = vec![0; NEEDLE];
            let read = match file.canonical() {
                Ok(view) => view.read_at(ViewOffset(at), &mut needle).await.is_ok(),
                Err(_) => false,
            };
            let server = self.state.lock().oracle().server_of(at as usize);
            if !read {
                continue;
            }
            self.state.lock().rot_wanted = Some((server, needle));
            let places = loop {
                tokio::time::sleep(Duration::from_millis(2)).await;
                if let Some(places) = self.state.lock().rot_placed.take() {
                    break places;
                }
            };
            if places > 0 {
                return server;
            }
        }
        let wrong = "what was written to its place is on no disk";
        self.state.lock().note_wrong(wrong.to_owned());
        0
    }
}
