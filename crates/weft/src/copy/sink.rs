//! A file that is copied to.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use weft_client::{Access, NewLayout, OpenView, Volume};
use weft_layout::ViewOffset;

use super::local::{self, blocking};
use super::source::Source;
use super::tree::{Node, Tree};
use super::zeros::{BLOCK, runs};
use super::{Copy, Job};
use crate::buffers::Buffer;

/// Zeros from this length on are left out of writes to a volume: a request costs about as much as its bytes.
const REMOTE_HOLE: usize = 64 << 10;

/// An open file to write to.
pub(super) enum Sink {
    Local(Arc<File>),
    Weft {
        file: weft_client::File,
        view: Arc<OpenView>,
    },
}

/// Stores pieces.
pub(super) enum Store {
    Local(Arc<File>),
    Weft(Arc<OpenView>),
}

impl Store {
    /// Writes what is not zeros; returns one past the last byte written, 0 if nothing was.
    pub(super) async fn run(&self, offset: u64, buffer: Buffer) -> Result<u64> {
        let hole = match self {
            Store::Local(_) => BLOCK,
            Store::Weft(_) => REMOTE_HOLE,
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
    /// Creates the file, or empties the one that is there; `None` if that is to be kept.
    pub(super) async fn create(copy: &Copy, job: &Job, source: &Source) -> Result<Option<Sink>> {
        match &copy.to {
            Tree::Local => {
                let (place, keep) = (local::path(&job.to), copy.options.no_clobber);
                match blocking(move || local::create(&place, keep)).await {
                    Ok(file) => Ok(Some(Sink::Local(Arc::new(file)))),
                    Err(e) if keep && e.kind() == io::ErrorKind::AlreadyExists => Ok(None),
                    Err(e) => {
                        Err(e).with_context(|| format!("cannot write {}", copy.to.show(&job.to)))
                    }
                }
            }
            Tree::Weft(volume) => Sink::create_in(volume, copy, job, source).await,
        }
    }

    async fn create_in(
        volume: &Volume,
        copy: &Copy,
        job: &Job,
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
        let file = match volume.attach(&job.to, access).await {
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
            Sink::Local(file) => Store::Local(file.clone()),
            Sink::Weft { view, .. } => Store::Weft(view.clone()),
        }
    }

    /// Ends the file at `size`, also where it ends in a hole.
    pub(super) async fn close(self, path: &str, size: u64, reached: u64) -> Result<()> {
        match self {
            Sink::Local(file) if reached < size => {
                let sized = blocking(move || file.set_len(size));
                sized
                    .await
                    .with_context(|| format!("cannot set the size of {path}"))
            }
            Sink::Local(_) => Ok(()),
            Sink::Weft { file, .. } => {
                if reached < size {
                    file.truncate(size).await?;
                }
                Ok(file.close().await?)
            }
        }
    }
}

/// What a copy of this file asks for to lie like it.
fn layout_of(node: &Node) -> NewLayout {
    node.layout
        .as_ref()
        .map_or_else(NewLayout::default, |layout| NewLayout {
            cells: Some(layout.cells),
            bsu: Some(layout.bsu),
            chunk: Some(layout.chunk),
            ..NewLayout::default()
        })
}
