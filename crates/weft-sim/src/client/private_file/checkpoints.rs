//! The checkpoints of a client's private file: create, read, roll back, remove.

use rand::Rng;
use rand::seq::IteratorRandom;
use weft_client::Error;
use weft_layout::ViewOffset;
use weft_proto::Code;

use super::state::{CheckpointContent, FORKS, LENGTH, PrivateFile};
use crate::client::settle::{owed, settle};
use crate::state::now;

/// Most checkpoints of the file.
const CHECKPOINTS_MAX: usize = 4;

impl PrivateFile {
    /// One operation on checkpoints.
    pub(super) async fn checkpoint_operation(&mut self) -> Result<(), Error> {
        let Some(name) = self.kept.keys().choose(&mut self.rng).cloned() else {
            return self.make_checkpoint().await;
        };
        match self.rng.random_range(0..6) {
            0..=1 if self.kept.len() < CHECKPOINTS_MAX => self.make_checkpoint().await,
            0..=1 | 5 => self.remove_checkpoint(name).await,
            2..=3 => {
                let fork = self.rng.random_range(0..FORKS.len());
                let result = self.read_checkpoint(&name, fork).await;
                self.state.lock().count("read of a checkpoint", &result);
                Ok(())
            }
            _ => self.roll_back(&name).await,
        }
    }

    /// Every checkpoint is there, no other is, and each holds what it must.
    pub(super) async fn check_checkpoints(&mut self) -> Result<(), Error> {
        let there = self.volume.checkpoints(self.path.as_str()).await?;
        let mut there: Vec<String> = there.into_iter().map(|c| c.name).collect();
        there.sort_unstable();
        let expected: Vec<String> = self.kept.keys().cloned().collect();
        if there != expected {
            let path = &self.path;
            let wrong = format!("{path}: checkpoints {there:?}, expected {expected:?}");
            self.state.lock().note_wrong(wrong);
        }
        for name in expected {
            for fork in 0..FORKS.len() {
                let read = self.read_checkpoint(&name, fork).await;
                self.state.lock().tolerate(read)?;
            }
        }
        Ok(())
    }

    async fn make_checkpoint(&mut self) -> Result<(), Error> {
        let name = self.next_name("kept");
        let (volume, path) = (&self.volume, &self.path);
        let made = settle(&self.state, "checkpoint", async |maybe| {
            let result = volume.make_checkpoint(path.as_str(), &name).await;
            match result {
                Err(e) if maybe && e.code() == Code::Exists => {
                    let all = volume.checkpoints(path.as_str()).await?;
                    all.into_iter()
                        .find(|c| c.name == name)
                        .ok_or_else(|| owed(e))
                }
                result => result,
            }
        });
        let made = made.await?;
        let state = self.state.lock();
        let (times, losses) = ((made.begun, made.ended), &state.losses);
        let kept = CheckpointContent {
            info: made.value,
            forks: self.forks.each_ref().map(|fork| fork.kept(times, losses)),
            size: self.size.kept(losses),
        };
        drop(state);
        self.kept.insert(name, kept);
        Ok(())
    }

    async fn read_checkpoint(&mut self, name: &str, fork: usize) -> Result<(), Error> {
        let kept = &self.kept[name];
        let (mut buffer, begun) = (vec![0; LENGTH], now());
        let view = self.view(fork)?.of_checkpoint(&kept.info);
        view.read_at(ViewOffset(0), &mut buffer).await?;
        let mut state = self.state.lock();
        let found = kept.forks[fork].check(0, &buffer, (begun, now()), &state.losses);
        if let Some(found) = found {
            let (path, fork) = (&self.path, FORKS[fork]);
            let what = format!("{path}, fork {fork} in checkpoint {name}");
            state.note_unexplained(&what, &found);
        }
        state.digest(&buffer);
        Ok(())
    }

    async fn roll_back(&mut self, name: &str) -> Result<(), Error> {
        let (volume, path) = (&self.volume, &self.path);
        settle(&self.state, "rollback", async |_| {
            volume.roll_back(path.as_str(), name).await
        })
        .await?;
        let kept = &self.kept[name];
        self.forks.clone_from(&kept.forks);
        self.size = kept.size;
        Ok(())
    }

    async fn remove_checkpoint(&mut self, name: String) -> Result<(), Error> {
        let (volume, path) = (&self.volume, &self.path);
        settle(
            &self.state,
            "drop of a checkpoint",
            async |maybe| match volume.remove_checkpoint(path.as_str(), &name).await {
                Err(e) if maybe && e.code() == Code::NotFound => Ok(()),
                result => result,
            },
        )
        .await?;
        self.kept.remove(&name);
        Ok(())
    }
}
