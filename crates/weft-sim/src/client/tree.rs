//! A directory that one client has for itself: files in it are made, written, read, linked, renamed
//! and removed; its checkpoints are in `image`.
//!
//! A file is its id, whatever it is called. One name lies outside the directory: a rollback of the
//! directory finds files that went there. As with the client's own file, what changes names is
//! repeated until it is known to be done.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{Rng, RngCore};
use weft_client::{Access, Error, File, NewLayout, Volume};
use weft_layout::ViewOffset;
use weft_proto::Code;

use super::content::Content;
use super::image::Image;
use super::own::{close, make};
use super::settle::settle;
use crate::state::State;

/// Bytes of a file at most.
const LENGTH: usize = 8 << 10;
/// A directory in the directory.
const SUB: &str = "/sub";

pub(super) struct Tree {
    pub(super) volume: Volume,
    pub(super) state: State,
    pub(super) rng: SmallRng,
    layout: NewLayout,
    pub(super) root: String,
    /// All paths that files may have.
    paths: Vec<String>,
    /// Paths, and the ids of the files there.
    pub(super) names: BTreeMap<String, u64>,
    pub(super) files: BTreeMap<u64, Content>,
    /// Counts the checkpoints.
    pub(super) turn: u32,
    pub(super) images: BTreeMap<String, Image>,
}

impl Tree {
    /// Makes the directory of a client.
    pub(super) async fn new(
        volume: &Volume,
        state: &State,
        rng: SmallRng,
        layout: NewLayout,
        client: usize,
    ) -> Result<Tree, Error> {
        let root = format!("/tree-{client}");
        for path in [root.clone(), format!("{root}{SUB}")] {
            settle(state, "directory", async |maybe| {
                match volume.make_directory(&path, 0o755).await {
                    Err(e) if maybe && e.code() == Code::Exists => Ok(()),
                    result => result.map(drop),
                }
            })
            .await?;
        }
        let mut paths: Vec<String> = ["/a", "/b", "/sub/a"].map(|n| root.clone() + n).into();
        paths.push(format!("/outside-{client}"));
        Ok(Tree {
            volume: volume.clone(),
            state: state.clone(),
            rng,
            layout,
            root,
            paths,
            names: BTreeMap::new(),
            files: BTreeMap::new(),
            turn: 0,
            images: BTreeMap::new(),
        })
    }

    /// Does one operation; an error is one that makes the run wrong.
    pub(super) async fn operation(&mut self) -> Result<(), Error> {
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
            _ => self.image_operation().await,
        }
    }

    /// When nothing fails any more: everything is as it must be.
    pub(super) async fn after_healing(&mut self) -> Result<(), Error> {
        self.check_names().await?;
        for path in self.names.keys().cloned().collect::<Vec<_>>() {
            let read = self.read(&path).await;
            self.state.lock().tolerate(read)?;
        }
        self.check_images().await
    }

    /// Removes all that is there.
    pub(super) async fn clear(&mut self) -> Result<(), Error> {
        for path in self.names.keys().cloned().collect::<Vec<_>>() {
            self.unlink(&path).await?;
        }
        for name in self.images.keys().cloned().collect::<Vec<_>>() {
            self.drop_image(name).await?;
        }
        Ok(())
    }

    /// The directory names what it must, and nothing else.
    pub(super) async fn check_names(&self) -> Result<(), Error> {
        let there = files_below(&self.volume, &self.root).await?;
        let expected = self.names.keys().filter_map(|path| self.inside(path));
        self.compare_names(&self.root, &there, &expected.collect());
        Ok(())
    }

    /// Where in the directory a path leads to, if it does.
    pub(super) fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(&self.root)
    }

    pub(super) fn compare_names(
        &self,
        what: &str,
        there: &BTreeSet<String>,
        expected: &BTreeSet<&str>,
    ) {
        if there
            .iter()
            .map(String::as_str)
            .ne(expected.iter().copied())
        {
            let wrong = format!("{what} names {there:?}, expected {expected:?}");
            self.state.lock().note_wrong(wrong);
        }
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
        close(&self.state, &file).await;
        Ok(())
    }

    async fn read(&mut self, path: &str) -> Result<(), Error> {
        let file = self.attach(path).await?;
        let Some(content) = self.files.get_mut(&file.id()) else {
            return Ok(());
        };
        let checked = content.check(&self.state, path, &file).await;
        close(&self.state, &file).await;
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

    /// Files without a name are gone.
    pub(super) fn forget_unnamed(&mut self) {
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|id, _| named.contains(id));
    }
}

/// The files below a directory that has one other in it, as paths from there.
pub(super) async fn files_below(volume: &Volume, root: &str) -> Result<BTreeSet<String>, Error> {
    let mut found = BTreeSet::new();
    for directory in ["", SUB] {
        for entry in volume.list(format!("{root}{directory}")).all().await? {
            let name = String::from_utf8_lossy(&entry.name);
            found.insert(format!("{directory}/{name}"));
        }
    }
    found.remove(SUB);
    Ok(found)
}
