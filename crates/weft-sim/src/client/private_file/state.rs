//! The file, and what it and its checkpoints may hold.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use weft_client::{CheckpointInfo, Error, File, NewLayout, OpenView, Volume};
use weft_layout::View;
use weft_proto::Code;

use crate::client::calls::make;
use crate::client::size::Size;
use crate::oracle::{Oracle, Time};
use crate::state::{State, now};

/// Bytes of the file at most.
pub(super) const LENGTH: usize = 20 << 10;
/// The forks of the file.
pub(super) const FORKS: [&str; 2] = ["data", "index"];

pub(in crate::client) struct PrivateFile {
    pub(super) volume: Volume,
    pub(super) state: State,
    pub(super) rng: SmallRng,
    pub(super) layout: NewLayout,
    client: usize,
    /// Blocks may go bad.
    pub(super) rot: bool,
    /// Counts the file's paths and checkpoints.
    pub(super) turn: u32,
    pub(super) path: String,
    pub(super) file: File,
    /// What each of its forks may hold.
    pub(super) forks: [Oracle; FORKS.len()],
    pub(super) size: Size,
    pub(super) kept: BTreeMap<String, CheckpointContent>,
}

/// What a checkpoint holds.
pub(super) struct CheckpointContent {
    pub(super) info: CheckpointInfo,
    pub(super) forks: [Oracle; FORKS.len()],
    pub(super) size: Size,
}

impl PrivateFile {
    /// Makes the file of a client.
    pub(in crate::client) async fn new(
        volume: &Volume,
        state: &State,
        rng: SmallRng,
        layout: NewLayout,
        client: usize,
        rot: bool,
    ) -> Result<PrivateFile, Error> {
        let path = format!("/own-{client}-0");
        let file = make(volume, state, &layout, &path).await?;
        let forks = none(&file);
        let size = Size::exactly(0, &state.lock().losses);
        Ok(PrivateFile {
            volume: volume.clone(),
            state: state.clone(),
            rng,
            layout,
            client,
            rot,
            turn: 0,
            path,
            file,
            forks,
            size,
            kept: BTreeMap::new(),
        })
    }

    /// All of a fork.
    pub(super) fn view(&self, fork: usize) -> Result<OpenView, Error> {
        self.file.view_of_fork(View::canonical(), FORKS[fork])
    }

    pub(super) fn next_name(&mut self, what: &str) -> String {
        self.turn += 1;
        format!("{what}-{}-{}", self.client, self.turn)
    }

    /// A sync or a close that began then may have said that something is lost.
    pub(super) fn note_reported_loss(&mut self, begun: Time, result: &Result<(), Error>) {
        if let Err(error) = result
            && error.code() == Code::Lost
        {
            let mut state = self.state.lock();
            let losses = state.losses.clone();
            let forks = self.forks.iter_mut();
            let explained = forks.map(|fork| fork.reported_lost(0, (begun, now()), &losses));
            let explained = explained.fold(false, |any, one| any | one);
            state.note_loss(explained, error);
        }
    }
}

/// What the forks of a new file hold.
pub(super) fn none(file: &File) -> [Oracle; FORKS.len()] {
    FORKS.map(|_| Oracle::new(LENGTH, file.layout()))
}
