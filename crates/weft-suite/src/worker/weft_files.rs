//! A part whose records are files of a directory in the volume, by the library's calls.

use bytes::Bytes;
use weft_client::{Access, NewLayout, Volume};
use weft_layout::ViewOffset;

use crate::error::SuiteError;
use crate::row::Op;
use crate::task::{Syncing, Task};

use super::laps::Laps;
use super::posix_files::expect_size;

/// The files' paths, made before the clock runs.
pub(super) struct WeftFiles {
    volume: Volume,
    paths: Vec<String>,
    layout: NewLayout,
}

impl WeftFiles {
    /// Looks for the first file, so that the connection stands.
    pub(super) async fn of(
        volume: &Volume,
        directory: &str,
        servers: &[u32],
        task: &Task,
    ) -> Result<WeftFiles, SuiteError> {
        volume.stat(directory).await?;
        let names = (0..task.part.calls()).map(|number| format!("{directory}/{number}"));
        Ok(WeftFiles {
            volume: volume.clone(),
            paths: names.collect(),
            layout: NewLayout {
                servers: servers.to_vec(),
                ..NewLayout::default()
            },
        })
    }

    /// Takes one step with every file; bytes moved and requests sent.
    pub(super) async fn step(
        &self,
        task: &Task,
        memory: &mut Vec<u8>,
        laps: &mut Laps,
    ) -> Result<(u64, u64), SuiteError> {
        let before = self.volume.counters().calls_total();
        let size = task.file_bytes();
        let mut moved = 0;
        if task.op.makes_bytes() {
            let data = Bytes::from(std::mem::take(memory));
            for (number, path) in self.paths.iter().enumerate() {
                let bytes = data.slice(number * size..(number + 1) * size);
                moved += self.create(path, bytes, task.syncing).await?;
                laps.lap();
            }
        } else {
            for (path, bytes) in self.paths.iter().zip(memory.chunks_mut(size)) {
                moved += match task.op {
                    Op::Read => self.read(path, bytes).await?,
                    Op::Stat => {
                        let found = self.volume.stat(path.as_str()).await?;
                        expect_size(found.size, size as u64)?
                    }
                    Op::Create | Op::Write | Op::Remove => {
                        self.volume.unlink(path.as_str()).await?;
                        0
                    }
                };
                laps.lap();
            }
        }
        Ok((moved, self.volume.counters().calls_total() - before))
    }

    async fn create(&self, path: &str, bytes: Bytes, syncing: Syncing) -> Result<u64, SuiteError> {
        let access = Access::write().create_new(0o600).layout(&self.layout);
        let file = self.volume.attach(path, access).await?;
        let view = file.canonical()?;
        let moved = match syncing {
            Syncing::Each => view.write_at_synced(ViewOffset(0), bytes).await?,
            Syncing::Never | Syncing::AtEnd => view.write_at(ViewOffset(0), bytes).await?,
        };
        file.close().await?;
        Ok(moved)
    }

    async fn read(&self, path: &str, bytes: &mut [u8]) -> Result<u64, SuiteError> {
        let file = self.volume.attach(path, Access::read()).await?;
        let moved = file.canonical()?.read_at(ViewOffset(0), bytes).await?;
        file.close_deferred().await?;
        Ok(moved)
    }
}
