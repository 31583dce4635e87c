//! The bytes and sizes that a file may have when one client alone writes it.

use weft_client::{Error, File};
use weft_layout::ViewOffset;
use weft_proto::Code;

use super::calls::linger;
use super::size::Size;
use crate::oracle::{Losses, Oracle, Time};
use crate::state::{State, now};

#[derive(Clone)]
pub(super) struct Content {
    oracle: Oracle,
    size: Size,
}

impl Content {
    /// A new file of at most so many bytes.
    pub(super) fn none(length: usize, file: &File, losses: &Losses) -> Content {
        Content {
            oracle: Oracle::new(length, file.layout()),
            size: Size::exactly(0, losses),
        }
    }

    /// Has `work` write these bytes. Returns when nothing of it is on its way any more.
    pub(super) async fn write<T>(
        &mut self,
        state: &State,
        (at, data): (usize, &[u8]),
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let end = at + data.len();
        self.size.begin_write(end, &state.lock().losses);
        let write = self.oracle.begin(at, data, now());
        let result = work.await;
        self.oracle.end(write, result.is_ok(), now());
        if result.is_ok() {
            self.size.written(end, &state.lock().losses);
        } else {
            linger().await;
        }
        result
    }

    pub(super) async fn sync(&mut self, state: &State, file: &File) -> Result<(), Error> {
        let begun = now();
        self.size.begin_sync(&state.lock().losses);
        let synced = file.sync().await;
        self.note_reported_loss(state, begun, &synced);
        synced?;
        self.oracle.synced(begun, now());
        self.size.synced(&state.lock().losses);
        Ok(())
    }

    /// A sync or a close that began then may have said that something is lost.
    pub(super) fn note_reported_loss(
        &mut self,
        state: &State,
        begun: Time,
        result: &Result<(), Error>,
    ) {
        if let Err(error) = result
            && error.code() == Code::Lost
        {
            let mut state = state.lock();
            let explained = self.oracle.reported_lost(0, (begun, now()), &state.losses);
            state.note_loss(explained, error);
        }
    }

    /// What a checkpoint keeps that was made from `begun` to `ended`.
    pub(super) fn kept(&self, (begun, ended): (Time, Time), losses: &Losses) -> Content {
        Content {
            oracle: self.oracle.kept((begun, ended), losses),
            size: self.size.kept(losses),
        }
    }

    /// Reads the file and looks whether it is what it may be.
    pub(super) async fn check(
        &mut self,
        state: &State,
        what: &str,
        file: &File,
    ) -> Result<(), Error> {
        let (mut buffer, begun) = (vec![0; self.oracle.length()], now());
        let view = file.canonical()?;
        view.read_at(ViewOffset(0), &mut buffer).await?;
        let ended = now();
        let size = file.size().await?;
        let mut state = state.lock();
        let found = self.oracle.check(0, &buffer, (begun, ended), &state.losses);
        if let Some(found) = found {
            state.note_unexplained(what, &found);
        }
        if !self.size.allows(size, &state.losses) {
            let allowed = self.size;
            state.note_wrong(format!("{what} has {size} bytes, allowed are {allowed:?}"));
        }
        state.digest(&buffer);
        Ok(())
    }
}
