//! The policy of an attachment, and the callbacks of one that is a plug-in (CAPFS §3.6).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::io::Errno;
use weft_layout::{CellIndex, Grid, Storage};
use weft_policy::{Chunk, Core, Failed, Open, Opened, Touched};
use weft_proto::{Code, Retry};
use weft_sum::{ChunkName, without_zeros};

use super::chosen::{AskedFor, Chosen};
use crate::cache::Known;
use crate::limits::NAMES_KEPT_MAX;
use crate::policy::{Kept, Policy, Values};
use crate::{Error, File};

impl File {
    /// The consistency policy; `None`: none was asked for, and operations are reckless.
    pub fn policy(&self) -> Option<Policy> {
        self.chosen().map(|chosen| chosen.policy)
    }

    pub(crate) fn chosen(&self) -> Option<Arc<Chosen>> {
        self.0.policy.lock().clone()
    }

    pub(crate) fn values(&self) -> Values {
        let chosen = self.0.policy.lock();
        chosen
            .as_ref()
            .map_or(Values::RECKLESS, |chosen| chosen.values)
    }

    /// Sets the policy of this attachment from the next operation on. Local; writes that the one
    /// before delays leave with the next operation.
    ///
    /// # Errors
    /// [`Error::Refused`] if a file of this kind cannot have it, or a plug-in says so: the policy
    /// stays as it was.
    pub fn set_policy(&self, policy: impl Into<Option<Policy>>) -> Result<(), Error> {
        // First: callbacks of the new one may put names.
        self.0.own_names.clear();
        let policy = policy.into();
        let chosen = policy.map(|policy| self.choose(policy)).transpose()?;
        let before = std::mem::replace(&mut *self.0.policy.lock(), chosen);
        if let Some(before) = &before {
            match self.call(before, "change the policy of", Opened::pre_close) {
                Ok(asked) => self.0.pending.add(asked),
                Err(error) => {
                    tracing::warn!(path = %self.0.path, %error, "the policy before has ended with an error");
                }
            }
        }
        drop(before);
        self.note_policy();
        let cautious = self.values().in_order || self.0.always_cautious;
        self.0.cautious.store(cautious, Ordering::Release);
        Ok(())
    }

    /// Begins an open with a policy.
    fn choose(&self, policy: Policy) -> Result<Arc<Chosen>, Error> {
        let a = &self.0;
        policy.check(&a.path, a.layout.storage())?;
        let mut chosen = Chosen::new(policy);
        let Some(plugin) = policy.plugin() else {
            return Ok(Arc::new(chosen));
        };
        let open = Open {
            path: &a.path,
            file: a.id,
            length: self.attributes().size,
            chunk: a.layout.chunk().into(),
            writable: a.write,
            created: self.created(),
            addressed: a.layout.storage() == Storage::Addressed,
        };
        let failed = |failed: Failed| self.of_plugin("open", &failed);
        let core = Caller::new(self, chosen.values);
        let (values, opened) = plugin.open(&core, &open).map_err(failed)?;
        self.0.pending.add(core.asked.into_inner());
        (chosen.values, chosen.opened) = (values, Some(opened));
        let chosen = Arc::new(chosen);
        let asked = self.call(&chosen, "open", Opened::post_open)?;
        self.0.pending.add(asked);
        Ok(chosen)
    }

    /// Gives an attachment that was just made its policy.
    pub(super) fn begin_policy(&self, policy: Policy) -> Result<(), Error> {
        let chosen = self.choose(policy)?;
        let a = &self.0;
        if chosen.values.in_order {
            a.cautious.store(true, Ordering::Release);
        }
        *a.policy.lock() = Some(chosen);
        Ok(())
    }

    /// Ends what a policy keeps for this attachment, before its close.
    ///
    /// # Errors
    /// Of delayed writes, and the plug-in's; the attachment can be closed all the same.
    pub(super) async fn end_policy(&self) -> Result<(), Error> {
        let called = match self.chosen() {
            Some(chosen) => self.call(&chosen, "close", Opened::pre_close).map(drop),
            None => Ok(()),
        };
        let committed = self.commit().await;
        // Its last call must not have the policy locked.
        let ended = self.0.policy.lock().take();
        drop(ended);
        called.and(committed)
    }

    /// Calls a plug-in, if there is one; what it asks for.
    pub(crate) fn call(
        &self,
        chosen: &Chosen,
        doing: &str,
        callback: impl FnOnce(&Opened, &dyn Core) -> Result<(), Failed>,
    ) -> Result<AskedFor, Error> {
        let Some(opened) = &chosen.opened else {
            return Ok(AskedFor::default());
        };
        let core = Caller::new(self, chosen.values);
        let called = callback(opened, &core);
        let called = called.map_err(|failed| self.of_plugin(doing, &failed));
        called.map(|()| core.asked.into_inner())
    }

    /// Before a write: for how long it waits in the client, and what the callback asks for.
    pub(crate) fn before_write(
        &self,
        chosen: &Chosen,
        touched: impl FnOnce() -> Touched,
    ) -> Result<(Option<Duration>, AskedFor), Error> {
        let mut delay = chosen.values.delay;
        let asked = self.call(chosen, "write", |opened, core| {
            delay = opened.pre_write(core, &touched(), delay)?;
            Ok(())
        })?;
        // What is in order cannot wait.
        Ok((delay.filter(|_| !self.is_cautious()), asked))
    }

    /// After an operation: its outcome, or the plug-in's error of it. Does what that asks for.
    pub(crate) async fn after<T>(
        &self,
        chosen: &Chosen,
        doing: &str,
        outcome: Result<T, Error>,
        bytes: impl FnOnce(&T) -> u64,
        callback: impl FnOnce(&Opened, &dyn Core, i64) -> Result<(), Failed>,
    ) -> Result<T, Error> {
        let moved = match &outcome {
            Ok(done) => bytes(done).cast_signed(),
            Err(error) => -i64::from(error.errno()),
        };
        let called = self.call(chosen, doing, |opened, core| callback(opened, core, moved));
        let done = outcome?;
        self.do_asked_for(called?).await?;
        Ok(done)
    }

    /// Does what callbacks have asked for when the file was opened or its policy was changed.
    pub(crate) async fn do_pending(&self) -> Result<(), Error> {
        match self.0.pending.take() {
            Some(asked) => self.do_asked_for(asked).await,
            None => Ok(()),
        }
    }

    /// Does what a callback has asked for.
    pub(crate) async fn do_asked_for(&self, asked: AskedFor) -> Result<(), Error> {
        if asked.commit {
            self.commit().await?;
        }
        for range in asked.names {
            // Boxed: otherwise the future of every call is as large.
            Box::pin(self.fetch_names(range.start, range.end)).await;
        }
        Ok(())
    }

    fn of_plugin(&self, doing: &str, failed: &Failed) -> Error {
        Error::Refused {
            what: format!("{doing} {}", self.0.path),
            code: Code::Invalid,
            errno: failed.errno,
            retry: Retry::Never,
            message: failed.to_string(),
        }
    }
}

/// What a callback can ask of the client.
struct Caller<'a> {
    file: &'a File,
    values: Values,
    asked: Mutex<AskedFor>,
}

/// The chunks of each cell that canonical bytes touch.
fn chunks_of(
    grid: &Grid,
    size: u64,
    range: &Range<u64>,
) -> impl Iterator<Item = (CellIndex, Range<u64>)> {
    let cells = (0..grid.cells()).map(CellIndex);
    cells.filter_map(move |cell| {
        let (start, end) = (
            grid.cell_length(range.start, cell),
            grid.cell_length(range.end, cell),
        );
        (start < end).then(|| (cell, start / size..end.div_ceil(size)))
    })
}

impl<'a> Caller<'a> {
    fn new(file: &'a File, values: Values) -> Caller<'a> {
        Caller {
            file,
            values,
            asked: Mutex::default(),
        }
    }

    fn grid(&self) -> Grid {
        self.file.0.layout.grid()
    }

    fn chunk_size(&self) -> u64 {
        self.file.0.layout.chunk().into()
    }

    /// No further than the file is known to reach, and no more than is kept.
    fn bounded(&self, range: &Range<u64>) -> Range<u64> {
        let most = (NAMES_KEPT_MAX as u64).saturating_mul(self.chunk_size());
        let end = self.file.known_end().min(range.start.saturating_add(most));
        range.start.min(end)..range.end.min(end)
    }

    fn needs_names(&self) -> Result<(), Errno> {
        if self.values.needs_names() {
            Ok(())
        } else {
            Err(Errno::NOTSUP)
        }
    }

    /// What is kept of a chunk.
    fn known(&self, cell: CellIndex, chunk: u64) -> Option<Known> {
        let a = &self.file.0;
        match self.values.names {
            Kept::None => None,
            Kept::Own { .. } => a.own_names.known(cell, chunk),
            Kept::Coherent => {
                let server = a.layout.server_of(cell);
                let kept = &a.volume.shared.kept_names;
                kept.known(server, a.cells.file, cell, chunk)
            }
        }
    }
}

impl Core for Caller<'_> {
    fn hcache_get(&self, range: Range<u64>, most: usize) -> Result<(Vec<Chunk>, u64), Errno> {
        self.needs_names()?;
        let (mut found, mut missing) = (Vec::new(), 0);
        let range = self.bounded(&range);
        for (cell, chunks) in chunks_of(&self.grid(), self.chunk_size(), &range) {
            for number in chunks {
                match self.known(cell, number) {
                    None => missing += 1,
                    Some(_) if found.len() == most => {}
                    Some(known) => found.push(Chunk {
                        number,
                        cell: cell.0,
                        hole: (known == Known::Hole).into(),
                        name: match known {
                            Known::Hole => [0; 32],
                            Known::Name(name) => *name.as_bytes(),
                        },
                    }),
                }
            }
        }
        Ok((found, missing))
    }

    fn hcache_put(&self, chunks: &[Chunk]) -> Result<(), Errno> {
        if !matches!(self.values.names, Kept::Own { .. }) {
            return Err(Errno::NOTSUP);
        }
        if chunks.len() > NAMES_KEPT_MAX {
            return Err(Errno::INVAL);
        }
        let cells = self.grid().cells();
        if chunks.iter().any(|chunk| chunk.cell >= cells) {
            return Err(Errno::INVAL);
        }
        let named = chunks.iter().map(|chunk| {
            let name = (chunk.hole == 0).then(|| ChunkName::from_bytes(chunk.name));
            (CellIndex(chunk.cell), chunk.number, name)
        });
        self.file.0.own_names.put(named);
        Ok(())
    }

    fn hcache_clear(&self, range: Option<Range<u64>>) -> Result<(), Errno> {
        self.needs_names()?;
        let a = &self.file.0;
        let coherent = self.values.names == Kept::Coherent;
        let kept = &a.volume.shared.kept_names;
        match range {
            Some(range) => {
                let grid = self.grid();
                // However far the file reaches by now.
                let chunks = chunks_of(&grid, self.chunk_size(), &range);
                if coherent {
                    for (cell, chunks) in chunks {
                        let server = a.layout.server_of(cell);
                        kept.forget_chunks(server, a.cells.file, cell, chunks);
                    }
                } else {
                    a.own_names.changed(chunks);
                }
            }
            None if coherent => {
                for server in a.layout.servers_in_use() {
                    kept.forget(*server, a.cells.file);
                }
            }
            None => a.own_names.clear(),
        }
        Ok(())
    }

    fn hcache_invalidate(&self) {
        self.file.0.own_names.clear();
        self.file.0.volume.shared.kept_names.forget_all();
    }

    fn hcache_fetch(&self, range: Range<u64>) {
        if self.values.needs_names() {
            self.asked.lock().fetch(range);
        }
    }

    fn dcache_get(&self, name: &[u8; 32], into: &mut [u8]) -> Result<usize, Errno> {
        let chunks = &self.file.0.volume.shared.chunks;
        let chunk = chunks.get(&ChunkName::from_bytes(*name));
        let chunk = chunk.ok_or(Errno::NOENT)?;
        let fits = chunk.len().min(into.len());
        into[..fits].copy_from_slice(&chunk[..fits]);
        Ok(chunk.len())
    }

    fn dcache_put(&self, name: &[u8; 32], bytes: &[u8]) -> Result<(), Errno> {
        let bytes = &bytes[..without_zeros(bytes)];
        let name = ChunkName::from_bytes(*name);
        if bytes.is_empty() || ChunkName::of(bytes) != name {
            return Err(Errno::INVAL);
        }
        let chunks = &self.file.0.volume.shared.chunks;
        chunks.put(name, Bytes::copy_from_slice(bytes));
        Ok(())
    }

    fn commit(&self) {
        self.asked.lock().commit = true;
    }
}
