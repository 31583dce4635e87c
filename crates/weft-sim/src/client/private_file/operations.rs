//! Operations on the file, and the check at the end of a run.

use bytes::Bytes;
use rand::{Rng, RngCore};
use weft_client::Error;
use weft_layout::{Storage, ViewOffset};
use weft_proto::Code;

use super::state::{FORKS, LENGTH, PrivateFile, none};
use crate::client::calls::{close, ignore_reported_loss, linger, make};
use crate::client::settle::settle;
use crate::client::size::Size;
use crate::state::now;

impl PrivateFile {
    /// Does one operation; an error is one that makes the run wrong.
    pub(in crate::client) async fn operation(&mut self) -> Result<(), Error> {
        match self.rng.random_range(0..21) {
            0..=6 => self.write().await,
            7..=9 => {
                let fork = self.rng.random_range(0..FORKS.len());
                let result = self.read(fork).await;
                self.state.lock().count("own read", &result);
            }
            10 => {
                let result = self.sync().await;
                self.state.lock().count("own sync", &result);
            }
            11 => {
                let result = self.check_size().await;
                self.state.lock().count("size", &result);
            }
            12..=13 => self.truncate().await?,
            14 => self.rename().await?,
            15 => self.make_anew().await?,
            16 => self.remove_fork().await,
            _ => self.checkpoint_operation().await?,
        }
        Ok(())
    }

    /// When nothing fails any more: everything is as it must be.
    pub(in crate::client) async fn after_healing(&mut self) -> Result<(), Error> {
        for fork in 0..FORKS.len() {
            let read = self.read(fork).await;
            self.state.lock().tolerate(read)?;
        }
        self.check_size().await?;
        self.check_checkpoints().await?;
        let (begun, closed) = (now(), self.file.close().await);
        self.note_reported_loss(begun, &closed);
        ignore_reported_loss(closed)
    }

    async fn write(&mut self) {
        let fork = usize::from(self.rng.random_ratio(1, 4));
        let at = self.rng.random_range(0..LENGTH);
        let most = if self.rng.random() { 300 } else { 9_000 };
        let mut data = vec![0; self.rng.random_range(1..=(LENGTH - at).min(most))];
        self.rng.fill_bytes(&mut data);
        // The file's size follows from `data` alone.
        let end = if fork == 0 { at + data.len() } else { 0 };
        self.size.begin_write(end, &self.state.lock().losses);
        let write = self.forks[fork].begin(at, &data, now());
        let result = self.send(fork, at, data).await;
        self.forks[fork].end(write, result.is_ok(), now());
        if result.is_ok() {
            self.size.written(end, &self.state.lock().losses);
        }
        self.state.lock().count("own write", &result);
        if result.is_err() {
            linger().await;
        }
    }

    async fn send(&self, fork: usize, at: usize, data: Vec<u8>) -> Result<(), Error> {
        let view = self.view(fork)?;
        view.write_at(ViewOffset(at as u64), Bytes::from(data))
            .await?;
        Ok(())
    }

    async fn read(&mut self, fork: usize) -> Result<(), Error> {
        let (mut buffer, begun) = (vec![0; LENGTH], now());
        self.view(fork)?.read_at(ViewOffset(0), &mut buffer).await?;
        let mut state = self.state.lock();
        let found = self.forks[fork].check(0, &buffer, (begun, now()), &state.losses);
        if let Some(found) = found {
            let what = format!("{}, fork {}", self.path, FORKS[fork]);
            state.note_unexplained(&what, &found);
        }
        state.digest(&buffer);
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), Error> {
        let begun = now();
        self.size.begin_sync(&self.state.lock().losses);
        let synced = self.file.sync().await;
        self.note_reported_loss(begun, &synced);
        synced?;
        for fork in &mut self.forks {
            fork.synced(begun, now());
        }
        self.size.synced(&self.state.lock().losses);
        Ok(())
    }

    async fn check_size(&mut self) -> Result<(), Error> {
        let size = self.file.size().await?;
        let mut state = self.state.lock();
        if !self.size.allows(size, &state.losses) {
            let (path, allowed) = (&self.path, self.size);
            state.note_wrong(format!("{path} has {size} bytes, allowed are {allowed:?}"));
        }
        Ok(())
    }

    async fn truncate(&mut self) -> Result<(), Error> {
        let mut size = self.rng.random_range(0..=LENGTH);
        if self.rot {
            // A truncation through a bad block stays pending until the block is rewritten; one that
            // makes an addressed file longer reads its recipe.
            let addressed = self.layout.storage == Some(Storage::Addressed);
            size = if size < LENGTH / 2 || addressed {
                0
            } else {
                LENGTH
            };
        }
        let cut = self.forks[0].begin_truncate(size, now());
        let file = &self.file;
        settle(&self.state, "truncate", async |_| {
            file.truncate(size as u64).await
        })
        .await?;
        self.forks[0].end(cut, true, now());
        self.size = Size::exactly(size, &self.state.lock().losses);
        Ok(())
    }

    async fn rename(&mut self) -> Result<(), Error> {
        let to = format!("/{}", self.next_name("own"));
        let (volume, from) = (&self.volume, &self.path);
        settle(&self.state, "rename", async |maybe| {
            match volume.rename(from.as_str(), to.as_str()).await {
                Err(e) if maybe && e.code() == Code::NotFound => Ok(()),
                result => result.map(drop),
            }
        })
        .await?;
        self.path = to;
        Ok(())
    }

    /// Removes the file and makes another under its name.
    async fn make_anew(&mut self) -> Result<(), Error> {
        let (volume, path) = (&self.volume, &self.path);
        settle(&self.state, "unlink", async |maybe| {
            match volume.unlink(path.as_str()).await {
                Err(e) if maybe && e.code() == Code::NotFound => Ok(()),
                result => result.map(drop),
            }
        })
        .await?;
        // It was open: its bytes go only now.
        let _ = close(&self.state, &self.file).await;
        self.file = make(&self.volume, &self.state, &self.layout, &self.path).await?;
        self.forks = none(&self.file);
        self.size = Size::exactly(0, &self.state.lock().losses);
        self.kept.clear();
        Ok(())
    }
}
