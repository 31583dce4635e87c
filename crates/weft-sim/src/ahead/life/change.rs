//! Changes of files that are there, and syncs of all names.

use rand::Rng;
use rand::rngs::SmallRng;
use weft_client::{Access, Changes};

use super::super::entry::{Entry, FileState};
use super::super::turn::{Turn, Want};
use super::process::Life;
use crate::state::now;

impl Life {
    /// Removes a file.
    pub(super) async fn remove(&self, rng: &mut SmallRng) {
        let Some(turn) = self.take_turn(Want::File, rng) else {
            return;
        };
        let removed = self.remove_in_turn(&turn).await;
        let mut names = self.shared.names();
        names.end_turn(&turn, removed.is_none(), now());
    }

    async fn remove_in_turn(&self, turn: &Turn) -> Option<()> {
        let (parent, name) = (turn.parent, &turn.name[..]);
        let named = self.known.named(parent, name);
        let ahead = self.known.is_live()
            && named.is_some()
            && self
                .volume
                .try_delegation(parent, false, || self.known.directories())
                .await
            && self.known.named(parent, name) == named;
        self.shared.names().begin(turn, Entry::Absent);
        if let (true, Some(file)) = (ahead, named) {
            let removed = self.volume.remove_delegated(parent, name.as_bytes(), file);
            if removed.is_some() {
                self.known.removed(parent, name);
                self.counted("file removed ahead");
                let sound = self.shared.names().acknowledge(turn, false, now());
                return sound.then_some(());
            }
        }
        let begun = now();
        let removed = self.volume.unlink(turn.place()).await;
        self.answered(turn, "file removed", begun, removed)?;
        self.known.removed(parent, name);
        let sound = self.shared.names().acknowledge(turn, true, now());
        sound.then_some(())
    }

    /// Renames a file, perhaps over another one.
    pub(super) async fn rename(&self, rng: &mut SmallRng) {
        let Some(from) = self.take_turn(Want::File, rng) else {
            return;
        };
        let want = if rng.random() {
            Want::AbsentFile
        } else {
            Want::File
        };
        let renamed = match self.take_turn(want, rng) {
            Some(to) => {
                let renamed = self.rename_in_turn(&from, &to).await;
                self.shared.names().end_turn(&to, renamed.is_none(), now());
                renamed
            }
            None => Some(()),
        };
        let mut names = self.shared.names();
        names.end_turn(&from, renamed.is_none(), now());
    }

    async fn rename_in_turn(&self, from: &Turn, to: &Turn) -> Option<()> {
        {
            let mut names = self.shared.names();
            names.begin(to, from.entry);
            names.begin(from, Entry::Absent);
        }
        self.known.may_exist(to.parent, &to.name);
        let begun = now();
        let renamed = self.volume.rename(from.place(), to.place()).await;
        self.answered(from, "rename", begun, renamed)?;
        self.known.removed(from.parent, &from.name);
        let mut names = self.shared.names();
        let gone = names.acknowledge(from, true, now());
        let there = names.acknowledge(to, true, now());
        (gone && there).then_some(())
    }

    /// Sets the mode of a file.
    pub(super) async fn set_mode(&self, rng: &mut SmallRng) {
        let Some(turn) = self.take_turn(Want::File, rng) else {
            return;
        };
        let set = match turn.entry {
            Entry::File(state) => self.change_mode(&turn, state, rng).await.map(drop),
            _ => Some(()),
        };
        self.shared.names().end_turn(&turn, set.is_none(), now());
    }

    /// Sets the mode of a file in a turn, ahead of the service where that is possible.
    pub(super) async fn change_mode(
        &self,
        turn: &Turn,
        mut state: FileState,
        rng: &mut SmallRng,
    ) -> Option<FileState> {
        state.mode = 0o600 | rng.random_range(0..0o100);
        self.shared.names().begin(turn, Entry::File(state));
        let changes = Changes {
            mode: Some(state.mode),
            ..Changes::default()
        };
        let ahead = state.id.filter(|_| self.known.is_live());
        let set = ahead.and_then(|id| self.volume.set_delegated(id, &changes));
        let kept = if let Some(set) = set {
            self.counted("mode set ahead");
            if set.mode & 0o777 != state.mode {
                let what = format!("the mode was set to {:o}, not {:o}", set.mode, state.mode);
                self.shared.names().contradicted(turn, &what);
            }
            false
        } else {
            let begun = now();
            let set = self.volume.set_attributes(turn.place(), &changes).await;
            self.answered(turn, "mode set", begun, set)?;
            true
        };
        let sound = self.shared.names().acknowledge(turn, kept, now());
        sound.then_some(state)
    }

    /// Opens a small file and replaces its content.
    pub(super) async fn overwrite(&self, rng: &mut SmallRng) {
        let Some(turn) = self.take_turn(Want::InlineFile, rng) else {
            return;
        };
        let written = self.overwrite_in_turn(&turn, rng).await;
        let mut names = self.shared.names();
        names.end_turn(&turn, written.is_none(), now());
    }

    async fn overwrite_in_turn(&self, turn: &Turn, rng: &mut SmallRng) -> Option<()> {
        let Entry::File(mut state) = turn.entry else {
            return Some(());
        };
        let begun = now();
        let access = Access::read_write().inline();
        let opened = self.volume.attach(turn.place(), access).await;
        let file = self.answered(turn, "open to overwrite", begun, opened)?;
        if let Some(id) = state.id.filter(|id| *id != file.id()) {
            let what = format!("file {} was opened, not {id}", file.id());
            self.shared.names().contradicted(turn, &what);
        }
        state.id = Some(file.id());
        if file.inline_data().is_none() {
            // Its bytes were moved to its cells: a store in one step is not possible.
            let closed = file.close_deferred().await;
            return self.done(turn, "close ahead", closed).map(drop);
        }
        self.store(turn, &file, state, rng).await?;
        let closed = file.close_deferred().await;
        self.done(turn, "close ahead", closed).map(drop)
    }

    /// Makes all that this process was told of survive power loss.
    pub(super) async fn sync(&self, rng: &mut SmallRng) {
        let begun = now();
        let syncing = self.beside.as_ref().unwrap_or(&self.volume);
        let synced = syncing.sync_namespace().await;
        self.shared.state.lock().count("sync of names", &synced);
        if synced.is_ok() {
            self.shared.names().synced(self.by, begun, now());
            self.die_after_sync(rng).await;
        }
    }
}
