//! The checkpoints of a client's directory: create, check, roll back, remove.

use std::collections::BTreeMap;

use rand::Rng;
use rand::seq::IteratorRandom;
use weft_client::{Access, Error};
use weft_proto::Code;

use super::state::{Image, Tree, files_below};
use crate::client::calls::close;
use crate::client::settle::{owed, settle};

/// Most checkpoints of the directory.
const CHECKPOINTS_MAX: usize = 3;

impl Tree {
    /// One operation on checkpoints.
    pub(super) async fn checkpoint_operation(&mut self) -> Result<(), Error> {
        let Some(name) = self.checkpoints.keys().choose(&mut self.rng).cloned() else {
            return self.make_checkpoint().await;
        };
        match self.rng.random_range(0..6) {
            0..=1 if self.checkpoints.len() < CHECKPOINTS_MAX => self.make_checkpoint().await,
            0..=1 | 5 => self.remove_checkpoint(name).await,
            2..=3 => {
                let result = self.check_checkpoint(&name).await;
                self.state
                    .lock()
                    .count("look at a tree's checkpoint", &result);
                Ok(())
            }
            _ => self.roll_back(&name).await,
        }
    }

    /// Every checkpoint is there, no other is, and each holds what it must.
    pub(super) async fn check_checkpoints(&mut self) -> Result<(), Error> {
        let there = self.volume.checkpoints(&self.root).await?;
        let there = there.into_iter().map(|c| c.name).collect();
        let expected = self.checkpoints.keys().map(String::as_str).collect();
        let what = format!("the checkpoints of {}", self.root);
        self.compare_names(&what, &there, &expected);
        for name in self.checkpoints.keys().cloned().collect::<Vec<_>>() {
            let looked = self.check_checkpoint(&name).await;
            self.state.lock().tolerate(looked)?;
        }
        Ok(())
    }

    async fn make_checkpoint(&mut self) -> Result<(), Error> {
        self.turn += 1;
        let name = format!("image-{}", self.turn);
        let (volume, root) = (&self.volume, &self.root);
        let made = settle(
            &self.state,
            "checkpoint of a tree",
            async |maybe| match volume.make_checkpoint(root, &name).await {
                Err(e) if maybe && e.code() == Code::Exists => {
                    let all = volume.checkpoints(root).await?;
                    let there = all.iter().any(|c| c.name == name);
                    there.then_some(()).ok_or_else(|| owed(e))
                }
                result => result.map(drop),
            },
        );
        let made = made.await?;
        let (mut names, mut files) = (self.names.clone(), BTreeMap::new());
        names.retain(|path, _| self.inside(path).is_some());
        let state = self.state.lock();
        for id in names.values() {
            if let Some(content) = self.files.get(id) {
                let kept = content.kept((made.begun, made.ended), &state.losses);
                files.insert(*id, kept);
            }
        }
        drop(state);
        self.checkpoints.insert(name, Image { names, files });
        Ok(())
    }

    /// Looks at all names of a checkpoint, and into one of its files.
    async fn check_checkpoint(&mut self, name: &str) -> Result<(), Error> {
        let there = format!("{}/.weft/checkpoints/{name}", self.root);
        let found = files_below(&self.volume, &there).await?;
        let image = &self.checkpoints[name];
        let paths = image.names.keys();
        let expected = paths.filter_map(|path| self.inside(path)).collect();
        self.compare_names(&there, &found, &expected);
        let Some((path, id)) = image.names.iter().choose(&mut self.rng) else {
            return Ok(());
        };
        let path = format!("{there}{}", self.inside(path).unwrap_or_default());
        let mut content = image.files[id].clone();
        let file = self.volume.attach(&path, Access::read()).await?;
        let checked = content.check(&self.state, &path, &file).await;
        // Nothing was written through it.
        let _ = close(&self.state, &file).await;
        checked
    }

    /// Files that are still there are what they were, wherever they are called so; those that are
    /// gone come back.
    async fn roll_back(&mut self, name: &str) -> Result<(), Error> {
        let (volume, root) = (&self.volume, &self.root);
        settle(&self.state, "rollback of a tree", async |_| {
            volume.roll_back(root, name).await
        })
        .await?;
        let (root, image) = (&self.root, &self.checkpoints[name]);
        self.names.retain(|path, _| !path.starts_with(root));
        self.names.extend(image.names.clone());
        self.files.extend(image.files.clone());
        self.forget_unnamed();
        let listed = self.check_names().await;
        self.state.lock().count("list of a tree", &listed);
        Ok(())
    }

    pub(super) async fn remove_checkpoint(&mut self, name: String) -> Result<(), Error> {
        let (volume, root) = (&self.volume, &self.root);
        settle(
            &self.state,
            "drop of a tree's checkpoint",
            async |maybe| match volume.remove_checkpoint(root, &name).await {
                Err(e) if maybe && e.code() == Code::NotFound => Ok(()),
                result => result,
            },
        )
        .await?;
        self.checkpoints.remove(&name);
        Ok(())
    }
}
