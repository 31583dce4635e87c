//! Operations on the directory and its files, and the check at the end of a run.

use bytes::Bytes;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{Rng, RngCore};
use weft_client::{Access, Error, File};
use weft_layout::ViewOffset;
use weft_proto::Code;

use super::state::Tree;
use crate::client::calls::{close, make};
use crate::client::content::Content;
use crate::client::settle::settle;
use crate::state::now;

/// Bytes of a file at most.
const LENGTH: usize = 8 << 10;

impl Tree {
    /// Does one operation; an error is one that makes the run wrong.
    pub(in crate::client) async fn operation(&mut self) -> Result<(), Error> {
        let named = self.names.keys().choose(&mut self.rng).cloned();
        let path = self.paths.choose(&mut self.rng).cloned();
        let (Some(path), Some(named)) = (&path, named) else {
            return self.write(&path.unwrap_or_default()).await;
        };
        match self.rng.random_range(0..18) {
            0..=5 => self.write(path).await,
            6..=8 => {
                let result = self.read(&named).await;
                self.state.lock().count("read in a tree", &result);
                Ok(())
            }
            9 => self.unlink(&named).await,
            10..=11 => self.rename(&named, path).await,
            12 => self.link(&named, path).await,
            _ => self.checkpoint_operation().await,
        }
    }

    /// When nothing fails any more: everything is as it must be.
    pub(in crate::client) async fn after_healing(&mut self) -> Result<(), Error> {
        self.check_names().await?;
        for path in self.names.keys().cloned().collect::<Vec<_>>() {
            let read = self.read(&path).await;
            self.state.lock().tolerate(read)?;
        }
        self.check_checkpoints().await
    }

    /// Removes all that is there.
    pub(in crate::client) async fn clear(&mut self) -> Result<(), Error> {
        for path in self.names.keys().cloned().collect::<Vec<_>>() {
            self.unlink(&path).await?;
        }
        for name in self.checkpoints.keys().cloned().collect::<Vec<_>>() {
            self.remove_checkpoint(name).await?;
        }
        Ok(())
    }

    /// Attaches what is there, or a new file.
    async fn attach(&mut self, path: &str) -> Result<File, Error> {
        let Some(id) = self.names.get(path) else {
            let file = make(&self.volume, &self.state, &self.layout, path).await?;
            let content = Content::none(LENGTH, &file, &self.state.lock().losses);
            self.names.insert(path.to_owned(), file.id());
            self.files.insert(file.id(), content);
            return Ok(file);
        };
        let volume = &self.volume;
        let attached = settle(&self.state, "attach", async |_| {
            volume.attach(path, Access::read_write()).await
        });
        let file = attached.await?.value;
        if file.id() != *id {
            let wrong = format!("{path} is file {}, expected {id}", file.id());
            self.state.lock().note_wrong(wrong);
        }
        Ok(file)
    }

    /// Writes some bytes of a file, and syncs them or not.
    async fn write(&mut self, path: &str) -> Result<(), Error> {
        let file = self.attach(path).await?;
        let Some(content) = self.files.get_mut(&file.id()) else {
            return Ok(());
        };
        let at = self.rng.random_range(0..LENGTH);
        let mut data = vec![0; self.rng.random_range(1..=LENGTH - at)];
        self.rng.fill_bytes(&mut data);
        let sync = self.rng.random_ratio(1, 3);
        let (view, bytes) = (file.canonical()?, Bytes::copy_from_slice(&data));
        let writing = view.write_at(ViewOffset(at as u64), bytes);
        let written = content.write(&self.state, (at, &data), writing).await;
        self.state.lock().count("write in a tree", &written);
        if sync {
            let synced = content.sync(&self.state, &file).await;
            self.state.lock().count("sync in a tree", &synced);
        }
        let begun = now();
        let closed = close(&self.state, &file).await;
        content.note_reported_loss(&self.state, begun, &closed);
        Ok(())
    }

    async fn read(&mut self, path: &str) -> Result<(), Error> {
        let file = self.attach(path).await?;
        let Some(content) = self.files.get_mut(&file.id()) else {
            return Ok(());
        };
        let checked = content.check(&self.state, path, &file).await;
        let begun = now();
        let closed = close(&self.state, &file).await;
        content.note_reported_loss(&self.state, begun, &closed);
        checked
    }

    async fn unlink(&mut self, path: &str) -> Result<(), Error> {
        let volume = &self.volume;
        settle(
            &self.state,
            "unlink in a tree",
            async |maybe| match volume.unlink(path).await {
                Err(e) if maybe && e.code() == Code::NotFound => Ok(()),
                result => result.map(drop),
            },
        )
        .await?;
        self.names.remove(path);
        self.forget_unnamed();
        Ok(())
    }

    /// Renames a file, perhaps over another; of two names of one file both stay.
    async fn rename(&mut self, from: &str, to: &str) -> Result<(), Error> {
        let id = self.names.get(from).copied();
        if id == self.names.get(to).copied() {
            return Ok(());
        }
        let volume = &self.volume;
        settle(
            &self.state,
            "rename in a tree",
            async |maybe| match volume.rename(from, to).await {
                Err(e) if maybe && e.code() == Code::NotFound => Ok(()),
                result => result.map(drop),
            },
        )
        .await?;
        self.names.remove(from);
        self.names.extend(id.map(|id| (to.to_owned(), id)));
        self.forget_unnamed();
        Ok(())
    }

    /// Gives a file another name.
    async fn link(&mut self, from: &str, to: &str) -> Result<(), Error> {
        if self.names.contains_key(to) {
            return Ok(());
        }
        let volume = &self.volume;
        settle(&self.state, "link", async |maybe| {
            match volume.link(from, to).await {
                Err(e) if maybe && e.code() == Code::Exists => Ok(()),
                result => result.map(drop),
            }
        })
        .await?;
        let id = self.names.get(from).copied();
        self.names.extend(id.map(|id| (to.to_owned(), id)));
        Ok(())
    }
}
