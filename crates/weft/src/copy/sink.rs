//! The target file of a copy. A new local file has a temporary name until it is complete, and an
//! unfinished file is removed ([`Sink::discard`]).
//!
//! Deliberately absent: a temporary name for a new file in the volume, which would cost another
//! request for each file. After a kill −9, a copy leaves an incomplete file there, with the time of
//! the copy.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use weft_client::{Access, NewLayout, OpenView, Volume};
use weft_layout::ViewOffset;
use weft_proto::storage_from_wire;

use super::context::{Copy, CopyJob};
use super::node::Node;
use super::source::Source;
use super::tree::Tree;
use super::zeros::{BLOCK, runs};
use crate::copy::local;
use crate::limits::REMOTE_ZEROS_MIN;
use crate::remote::reach;
use crate::streams::{Buffer, blocking};
use crate::terminal::name;

/// An open file to write to.
pub(super) enum Sink {
    Local {
        file: Arc<File>,
        /// The path that a new file has until it is complete.
        hidden: Option<Vec<u8>>,
    },
    Weft {
        file: weft_client::File,
        view: Arc<OpenView>,
    },
}

/// The remains of an unfinished copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// A file that existed before and is empty now.
    Empty,
    /// What was written so far.
    Partial,
}

/// Stores pieces.
pub(super) enum Store {
    Local(Arc<File>),
    Weft(Arc<OpenView>),
}

impl Store {
    /// Writes all but long runs of zeros. Returns one past the last byte written, 0 if there was
    /// none.
    pub(super) async fn run(&self, offset: u64, buffer: Buffer) -> Result<u64> {
        let hole = match self {
            Store::Local(_) => BLOCK,
            Store::Weft(_) => REMOTE_ZEROS_MIN,
        };
        let runs = runs(&buffer, hole);
        let end = runs.last().map_or(0, |run| offset + run.end as u64);
        match self {
            Store::Local(file) => {
                let file = file.clone();
                let write = blocking(move || {
                    runs.into_iter().try_for_each(|run| {
                        file.write_all_at(&buffer[run.clone()], offset + run.start as u64)
                    })
                });
                write.await?;
            }
            Store::Weft(view) => {
                let data = buffer.freeze();
                for run in runs {
                    let at = ViewOffset(offset + run.start as u64);
                    view.write_at(at, data.slice(run)).await?;
                }
            }
        }
        Ok(end)
    }
}

impl Sink {
    /// Creates the file, or empties an existing one; `None` if that must be kept.
    pub(super) async fn create(
        copy: &Copy,
        job: &CopyJob,
        source: &Source,
    ) -> Result<Option<Sink>> {
        match &copy.to {
            Tree::Local => {
                let sink = Sink::create_here(&job.to, copy.options.no_clobber).await;
                sink.with_context(|| format!("cannot write {}", copy.to.show(&job.to)))
            }
            Tree::Weft(volume) => Sink::create_in(volume, copy, job, source).await,
        }
    }

    async fn create_here(path: &[u8], keep: bool) -> io::Result<Option<Sink>> {
        let there = move |place: &Path| {
            if !local::is_there(place)? {
                return Ok(None);
            }
            let file = if keep {
                None
            } else {
                Some(local::empty(place)?)
            };
            Ok(Some(file))
        };
        if let Some(there) = local::at(path, there).await? {
            return Ok(there.map(|file| Sink::Local {
                file: Arc::new(file),
                hidden: None,
            }));
        }
        let hidden = hidden_beside(path);
        let file = local::at(&hidden, local::create).await?;
        Ok(Some(Sink::Local {
            file: Arc::new(file),
            hidden: Some(hidden),
        }))
    }

    async fn create_in(
        volume: &Volume,
        copy: &Copy,
        job: &CopyJob,
        source: &Source,
    ) -> Result<Option<Sink>> {
        let mode = (job.node.mode | 0o200) & 0o777;
        let mut access = if copy.options.no_clobber {
            Access::write().create_new(mode)
        } else {
            Access::write().create(mode)
        };
        if copy.options.preserve {
            access = access.layout(&layout_of(&job.node));
        }
        let place = reach(volume, &job.to).await?;
        let file = match volume.attach(place, access).await {
            Ok(file) => file,
            Err(e) if copy.options.no_clobber && e.code() == weft_proto::Code::Exists => {
                return Ok(None);
            }
            Err(e) => return Err(e.into()),
        };
        if let Source::Weft { file: from, .. } = source
            && from.id() == file.id()
        {
            bail!(
                "{} and {} are the same file",
                copy.from.show(&job.from),
                copy.to.show(&job.to)
            );
        }
        let empty = file.attributes().size_exact && file.attributes().size == 0;
        if !file.created() && !empty {
            file.truncate(0).await?;
        }
        copy.note_servers(file.layout());
        let view = Arc::new(file.canonical()?);
        Ok(Some(Sink::Weft { file, view }))
    }

    pub(super) fn store(&self) -> Store {
        match self {
            Sink::Local { file, .. } => Store::Local(file.clone()),
            Sink::Weft { view, .. } => Store::Weft(view.clone()),
        }
    }

    /// Ends the file at `size`, also where it ends in a hole.
    pub(super) async fn end(&self, path: &str, size: u64, reached: u64) -> Result<()> {
        if reached >= size {
            return Ok(());
        }
        match self {
            Sink::Local { file, .. } => {
                let file = file.clone();
                let sized = blocking(move || file.set_len(size)).await;
                sized.with_context(|| format!("cannot set the size of {path}"))
            }
            Sink::Weft { file, .. } => Ok(file.truncate(size).await.map(drop)?),
        }
    }

    /// Completes the file. Returns false if another file took its name meanwhile and must be kept.
    pub(super) async fn close(self, path: &[u8], keep: bool) -> Result<bool> {
        match self {
            Sink::Local { hidden: None, .. } => Ok(true),
            Sink::Local {
                hidden: Some(hidden),
                ..
            } => {
                let publish = move |from: &Path, to: &Path| local::publish(from, to, keep);
                let published = local::at_both(&hidden, path, publish).await;
                published.with_context(|| {
                    let (hidden, path) = (name::escape(&hidden), name::escape(path));
                    format!("cannot rename the complete copy {hidden} to {path}")
                })
            }
            Sink::Weft { file, .. } => Ok(file.close().await.map(|()| true)?),
        }
    }

    /// Removes an unfinished file. No write to it may be in flight.
    pub(super) async fn discard(self, to: &Tree, path: &[u8]) -> Left {
        let (gone, left) = match (&self, to) {
            (
                Sink::Local {
                    hidden: Some(hidden),
                    ..
                },
                _,
            ) => {
                let removed = local::at(hidden, |place| std::fs::remove_file(place)).await;
                (removed.is_ok(), Left::Nothing)
            }
            (Sink::Local { file, hidden: None }, _) => {
                let file = file.clone();
                // A device has no length to lose.
                let emptied = blocking(move || {
                    let is_file = file.metadata()?.is_file();
                    if is_file {
                        file.set_len(0)?;
                    }
                    Ok(is_file)
                });
                (matches!(emptied.await, Ok(true)), Left::Empty)
            }
            (Sink::Weft { file, .. }, Tree::Weft(volume)) if file.created() => {
                let removed = match reach(volume, path).await {
                    Ok(place) => volume.unlink(place).await.map(drop),
                    Err(error) => Err(error),
                };
                (removed.is_ok(), Left::Nothing)
            }
            (Sink::Weft { file, .. }, _) => (file.truncate(0).await.is_ok(), Left::Empty),
        };
        if let Sink::Weft { file, .. } = self {
            // The first failure is the one to report.
            let _ = file.close().await;
        }
        if gone { left } else { Left::Partial }
    }
}

/// A unique path in the same directory.
fn hidden_beside(path: &[u8]) -> Vec<u8> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |i| i + 1);
    let directory = &path[..end - name::last(path).len()];
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let name = format!(".weft-copy-{}-{number}", std::process::id());
    name::join(directory, name.as_bytes())
}

/// The layout to request, so that the copy has the layout of this file.
fn layout_of(node: &Node) -> NewLayout {
    node.layout
        .as_ref()
        .map_or_else(NewLayout::default, |layout| NewLayout {
            cells: Some(layout.cells),
            bsu: Some(layout.bsu),
            chunk: Some(layout.chunk),
            storage: storage_from_wire(layout.storage).ok(),
            ..NewLayout::default()
        })
}
