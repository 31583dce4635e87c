//! A part moved by Weft's calls.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::net::TcpListener;
use weft_client::{File, Group, OpenView, Overlaps, Transfer, Volume};
use weft_layout::{Pattern, ViewOffset};

use super::exchange::Exchange;
use super::laps::Laps;
use crate::error::SuiteError;
use crate::task::{Syncing, Task};

/// An attached file with the task's view.
pub(crate) struct WeftFile {
    volume: Volume,
    file: File,
    view: OpenView,
    /// Where each call starts.
    starts: Vec<u64>,
    group: Option<Group>,
    exchange: Option<Exchange>,
}

impl WeftFile {
    /// Takes the attachment over and opens the view; asks every server of the file, so that
    /// connections stand.
    pub(crate) async fn open(
        volume: &Volume,
        handed: &[u8],
        task: &Task,
        listener: &TcpListener,
    ) -> Result<WeftFile, SuiteError> {
        let file = volume.adopt(handed)?;
        let view = file.view(task.part.view.into())?;
        file.size().await?;
        // Tiles overlap; what members write there is the same.
        let group = task.group.as_ref().map(|g| {
            Group::new(g.id.as_str(), g.members, g.member).overlaps(Overlaps::MemberOrder)
        });
        let exchange = match &task.partners {
            Some(partners) => Some(Exchange::connect(partners, task.shape, listener).await?),
            None => None,
        };
        Ok(WeftFile {
            volume: volume.clone(),
            file,
            view,
            starts: task.part.starts().collect(),
            group,
            exchange,
        })
    }

    /// Writes the memory; bytes moved and requests sent.
    pub(crate) async fn write(
        &mut self,
        task: &Task,
        memory: &mut Vec<u8>,
        laps: &mut Laps,
    ) -> Result<(u64, u64), SuiteError> {
        let before = self.requests();
        let moved = match &mut self.exchange {
            Some(exchange) => exchange.write(&self.view, memory).await?,
            None => self.write_calls(task, memory, laps).await?,
        };
        let requests = self.requests() - before;
        if task.syncing == Syncing::AtEnd {
            self.file.sync().await?;
        }
        Ok((moved, requests))
    }

    async fn write_calls(
        &self,
        task: &Task,
        memory: &mut Vec<u8>,
        laps: &mut Laps,
    ) -> Result<u64, SuiteError> {
        let data = Bytes::from(std::mem::take(memory));
        let bytes = task.part.call_bytes() as usize;
        let (pattern, many) = (task.part.pattern(), task.part.inner > 0);
        let moved = stream::iter(self.starts.iter().enumerate())
            .map(|(call, &at)| {
                let data = data.slice(call * bytes..(call + 1) * bytes);
                let transfer = many.then(|| Transfer::of(pattern.clone()).at(ViewOffset(at)));
                async move {
                    match (&self.group, transfer) {
                        (Some(group), transfer) => {
                            let transfer = transfer.unwrap_or_else(|| one(at, data.len()));
                            let collective = self.view.collective(group);
                            Ok(collective.write(&transfer, data).await?.bytes)
                        }
                        (None, Some(transfer)) => self.view.write_with(&transfer, data).await,
                        (None, None) if task.syncing == Syncing::Each => {
                            self.view.write_at_synced(ViewOffset(at), data).await
                        }
                        (None, None) => self.view.write_at(ViewOffset(at), data).await,
                    }
                }
            })
            .buffer_unordered(task.depth)
            .try_fold(0, |sum, moved| {
                laps.lap();
                async move { Ok(sum + moved) }
            })
            .await?;
        *memory = Vec::from(data);
        Ok(moved)
    }

    /// Reads into the memory; bytes moved and requests sent.
    pub(crate) async fn read(
        &mut self,
        task: &Task,
        memory: &mut [u8],
        laps: &mut Laps,
    ) -> Result<(u64, u64), SuiteError> {
        let before = self.requests();
        let moved = match &mut self.exchange {
            Some(exchange) => exchange.read(&self.view, memory).await?,
            None => self.read_calls(task, memory, laps).await?,
        };
        Ok((moved, self.requests() - before))
    }

    async fn read_calls(
        &self,
        task: &Task,
        memory: &mut [u8],
        laps: &mut Laps,
    ) -> Result<u64, SuiteError> {
        let (pattern, many) = (task.part.pattern(), task.part.inner > 0);
        let buffers = memory.chunks_mut(task.part.call_bytes().max(1) as usize);
        let moved = stream::iter(self.starts.iter().zip(buffers))
            .map(|(&at, buffer)| {
                let transfer = many.then(|| Transfer::of(pattern.clone()).at(ViewOffset(at)));
                async move {
                    match (&self.group, transfer) {
                        (Some(group), transfer) => {
                            let transfer = transfer.unwrap_or_else(|| one(at, buffer.len()));
                            let collective = self.view.collective(group);
                            Ok(collective.read(&transfer, buffer).await?.bytes)
                        }
                        (None, Some(transfer)) => self.view.read_with(&transfer, buffer).await,
                        (None, None) => self.view.read_at(ViewOffset(at), buffer).await,
                    }
                }
            })
            .buffer_unordered(task.depth)
            .try_fold(0, |sum, moved| {
                laps.lap();
                async move { Ok(sum + moved) }
            })
            .await?;
        Ok(moved)
    }

    fn requests(&self) -> u64 {
        self.volume.counters().calls_total()
    }
}

/// These bytes of the view, without any pattern.
fn one(at: u64, length: usize) -> Transfer {
    Transfer::of(Pattern::bytes(length as u64)).at(ViewOffset(at))
}
